import keras
import tensorflow as tf
import tensorflow_text

from keras_headattn.text._added_tokens import END, clean_utf8
from keras_headattn.text._byte_pair_tokenizer import BytePairTokenizer
from keras_headattn.text._wordpiece_tokenizer import SPECIALS

ALONE = r"([^\p{M}\x{1160}-\x{11ff}])"  # what no character before it is composed with: no mark, no inner jamo


@keras.saving.register_keras_serializable(package="keras_headattn")
class ModernBertTokenizer(BytePairTokenizer):
    """Byte-level byte-pair tokenizer of ModernBERT, inside the TensorFlow graph.

    A `BytePairTokenizer` of text in Unicode's form NFC, with BERT's special tokens: a text is `[CLS] A [SEP]`, a pair
    `[CLS] A [SEP] B [SEP]`, without segments. A SavedModel needs the package tensorflow-text. Make it by
    `interop.tokenizer_of` from a checkpoint.

    Source: Warner et al. 2024, "Smarter, better, faster, longer: a modern bidirectional encoder for fast, memory
    efficient, and long context finetuning and inference", section 2.1.

    Args:
        vocabulary: as in `BytePairTokenizer`, with `[CLS]`, `[SEP]`, `[PAD]` and `[UNK]`; `[MASK]` is for masked
            language models.
        merges, max_length, add_prefix_space, added_tokens: as in `BytePairTokenizer`.

    Call arguments:
        texts, second_texts: see `WordPieceTokenizer`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is 50283 in ModernBERT.

    Raises:
        FileNotFoundError: if `vocabulary` or `merges` names no file.
        ValueError: for an invalid vocabulary or merges, too small a `max_length`, or `texts` of another shape.

    >>> vocabulary = ["a", "c", "t", "Ġ", "at", "Ġc", "Ġcat", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    >>> tokenizer = ModernBertTokenizer(vocabulary, ["a t", "Ġ c", "Ġc at"])
    >>> tokenizer(["a cat"], ["at"]).numpy().tolist()
    [[8, 0, 6, 9, 4, 9]]
    """

    num_between = 1
    specials = SPECIALS

    def _normalize(self, strings):
        return tensorflow_text.normalize_utf8(clean_utf8(strings), "NFC")

    def _tokenize(self, strings):
        return super()._tokenize(self._normalize(strings))

    def _tokenize_with_offsets(self, strings):
        groups = tf.strings.split(tf.strings.regex_replace(strings, ALONE, END + rb"\1"), END)
        groups = tf.ragged.boolean_mask(groups, groups.with_flat_values(tf.strings.length(groups.flat_values) > 0))
        normal = groups.with_flat_values(self._normalize(groups.flat_values))
        ids, *sides = super()._tokenize_with_offsets(tf.strings.reduce_join(normal, axis=-1), normal)
        sizes = groups.with_flat_values(tf.cast(tf.strings.length(groups.flat_values, "UTF8_CHAR"), tf.int64))
        before = tf.cumsum(tf.reduce_sum(sizes, axis=1), exclusive=True)
        ends = tf.cumsum(sizes.flat_values) - tf.gather(before, sizes.value_rowids())  # of groups, in characters
        edges = tf.concat([tf.zeros([sizes.nrows(), 1], tf.int64), sizes.with_flat_values(ends)], axis=1)
        first = tf.gather(edges.row_starts(), ids.value_rowids())
        return ids, *(side.with_flat_values(tf.gather(edges.flat_values, first + side.flat_values)) for side in sides)
