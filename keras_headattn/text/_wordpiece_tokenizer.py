"""BERT's WordPiece as a layer, so that a served model takes text."""

import os

import keras
import tensorflow as tf
import tensorflow_text

from keras_headattn._files import read_lines
from keras_headattn.text._pair_tokenizer import PairTokenizer, clean_utf8

SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}
NO_TEXT = r"[^\P{C}\t\n\r]|\x{fffd}"  # control characters, invisible ones, and what stands for bytes that are no text


@keras.saving.register_keras_serializable(package="keras_headattn")
class WordPieceTokenizer(PairTokenizer):
    """Turns strings into the ids of BERT's word pieces, inside the TensorFlow graph.

    One text is `[CLS] A [SEP]`, a pair is `[CLS] A [SEP] B [SEP]`, with segment 1 for `B [SEP]`. The vocabulary is part
    of the layer: it is saved in a model's `.keras` file and in its SavedModel, which then needs no other file. It does
    need the package tensorflow-text, which has the operations.

    Special tokens that are written in a text are ordinary text: nobody who sends a text can end it early. Bytes that
    are not UTF-8 are left out, as are control characters. A word of more than 100 bytes is one `[UNK]`.

    Args:
        vocabulary: the path of BERT's `vocab.txt`, a token a line (str or path), or a list of str, the token of each
            id. `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]` must be among them, at any id; `[MASK]` is for masked language
            models. Pieces inside words begin with `##`.
        lowercase: bool, whether text is lower-cased and loses its accents, as "uncased" checkpoints want it. Default
            True.
        max_length: int, ids of a row, special ones included, beyond which it is cut; of a pair the longer text is cut
            first. Default `None`: none is cut.

    Call arguments:
        texts: string tensor (B,) or (B, 1), or a list of str.
        second_texts: as many strings, of pairs. Default `None`: single texts.

    Returns:
        int32 tensor (B, n), padded with `pad_id`; of pairs a dictionary of two, `token_ids` and `segment_ids`, of which
        the second is padded with 0.

    Raises:
        FileNotFoundError: if `vocabulary` names no file.
        ValueError: if a special token is missing, a token is there twice, `max_length` has no room for text, or `texts`
            has another shape.

    Source: Devlin et al. 2019, "BERT: pre-training of deep bidirectional transformers for language understanding";
    Song et al. 2021, "Fast WordPiece tokenization".

    Example:

    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "##s"])
    >>> tokenizer(["Cats!", "a cat"]).numpy().tolist()
    [[2, 5, 6, 1, 3], [2, 4, 5, 3, 0]]
    >>> pairs = tokenizer(["a cat"], ["cats"])
    >>> pairs["token_ids"].numpy().tolist(), pairs["segment_ids"].numpy().tolist()
    ([[2, 4, 5, 3, 5, 6, 3]], [[0, 0, 0, 0, 1, 1, 1]])
    >>> tokenizer.detokenize(pairs["token_ids"]).numpy().tolist()
    [b'a cat cats']
    """

    def __init__(self, vocabulary, lowercase=True, max_length=None, **kwargs):
        if isinstance(vocabulary, (str, os.PathLike)):
            vocabulary = [line.rstrip("\r\n") for line in read_lines(vocabulary, strip=False)]
        super().__init__(vocabulary, max_length, **kwargs)
        self.lowercase = lowercase
        specials = self._special_ids(SPECIALS)
        self.pad_id, self.unk_id, self.mask_id = specials["pad"], specials["unk"], specials["mask"]
        self.bos_id, self.eos_id = specials["bos"], specials["eos"]
        twice = len(self.vocabulary) - len(set(self.vocabulary))
        if twice:
            raise ValueError(f"`vocabulary` must hold every token once. Received: {twice} that are there again")
        if set(self.vocabulary) <= {*SPECIALS.values()}:
            raise ValueError(
                "`vocabulary` must hold at least one piece beside the special tokens. "
                f"Received: {len(self.vocabulary)} tokens"
            )
        # Its own lower case, `lower_case_nfd_strip_accents`, also takes signs such as ² and … apart, as BERT does not.
        self._graph_tokenizer = tensorflow_text.FastBertTokenizer(list(self.vocabulary), token_out_type=tf.int32)

    def _pieces(self, strings):
        return self._graph_tokenizer.tokenize(normalize_bert(strings, self.lowercase))

    def _text(self, ids):
        specials = tf.constant([self.pad_id, self.bos_id, self.eos_id, self.mask_id])
        is_text = tf.reduce_all(ids[..., None] != specials, axis=-1)
        tokens = tf.ragged.boolean_mask(tf.gather(tf.constant(self.vocabulary), ids), is_text)
        return tf.strings.regex_replace(tf.strings.reduce_join(tokens, axis=-1, separator=" "), r" ##", "")

    def get_config(self):
        return {**super().get_config(), "lowercase": self.lowercase}


def normalize_bert(strings, lowercase=True):
    """Strings without what BERT does not read: control characters and, in lower case, accents.

    Args:
        strings: string tensor (B,).
        lowercase: bool, whether text is lower-cased and loses its accents. Default True.

    Returns:
        String tensor (B,), UTF-8.

    >>> normalize_bert(tf.constant(["Ça, 3 km²!"])).numpy()[0].decode()
    'ca, 3 km²!'
    """
    strings = tf.strings.regex_replace(clean_utf8(strings), NO_TEXT, "")
    if not lowercase:
        return strings
    strings = tf.strings.regex_replace(tensorflow_text.normalize_utf8(strings, "NFD"), r"\p{Mn}", "")
    strings = tf.strings.regex_replace(strings, "Σ", "σ")  # or it would become ς where a word ends
    return tf.strings.lower(strings, encoding="utf-8")
