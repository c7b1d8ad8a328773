from typing import Any

import keras
import tensorflow as tf

from keras_headattn.text._added_tokens import clean_utf8
from keras_headattn.text._byte_texts import ByteTexts

END_OF_TEXT = "<|endoftext|>"


@keras.saving.register_keras_serializable(package="keras_headattn")
class ByteTokenizer(ByteTexts):
    """Tokenizer of UTF-8 bytes, inside the TensorFlow graph, without the package tensorflow-text.

    Ids 0 to 255 are bytes, 256 is `<|endoftext|>`, `eos_id`, which ends documents and is not added to texts.

    Source: Xue et al. 2022, "ByT5: towards a token-free future with pre-trained byte-to-byte models".

    Args:
        max_length: see `WordPieceTokenizer`.

    Call arguments:
        texts: string tensor (B,) or (B, 1), or a list of str. U+FFFD replaces bytes that are not UTF-8.
        special_tokens: True to read `<|endoftext|>` in texts as id 256. By default it is ordinary text.

    Returns:
        int32 tensor (B, n), padded with -1.

    Raises:
        ValueError: for too small a `max_length`, second texts, or `texts` of another shape.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer(["aé", "b"]).numpy().tolist()
    [[97, 195, 169], [98, -1, -1]]
    >>> tokenizer(["a<|endoftext|>"], special_tokens=True).numpy().tolist()
    [[97, 256]]
    >>> tokenizer.detokenize([[97, 195, 169, 256]]).numpy()[0].decode()
    'aé'
    """

    def __init__(self, max_length: int | None = None, **kwargs: Any):
        vocabulary = [*(f"<0x{byte:02X}>" for byte in range(256)), END_OF_TEXT]
        super().__init__(vocabulary, max_length, **kwargs)
        self._find_special({"eos": END_OF_TEXT}, add_eos=False)
        self._set_texts([*(bytes([byte]) for byte in range(256)), b""])

    def _tokenize(self, strings):
        strings = clean_utf8(strings)
        ids = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(strings), tf.uint8), tf.int32)
        return tf.RaggedTensor.from_row_lengths(ids, tf.cast(tf.strings.length(strings), tf.int64))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["vocabulary"], config["added_tokens"]
        return config
