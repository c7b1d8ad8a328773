"""Learning a vocabulary of word pieces from text."""

from collections.abc import Iterable

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab.bert_vocab_from_dataset import bert_vocab_from_dataset

from keras_headattn._validation import check_positive
from keras_headattn.text._pair_tokenizer import portions
from keras_headattn.text._wordpiece_tokenizer import SPECIALS, normalize_bert


def learn_wordpieces(texts: Iterable[str], vocabulary_size: int, lowercase: bool = True) -> list[str]:
    """Learns the pieces of a text for those who have no `vocab.txt`, by tensorflow-text.

    The special tokens are the first, in BERT's order: `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4. Then come
    all characters of the text, or the 1,000 most frequent ones, so that a word of known characters is never unknown,
    and longer pieces, the most frequent first. The same text gives the same pieces. All substrings of all words are
    counted in Python: a million different words take minutes.

    Args:
        texts: iterable of str.
        vocabulary_size: int, how many tokens there are at most. A text with few words has fewer.
        lowercase: bool, as `WordPieceTokenizer` takes it. Default True.

    Returns:
        List of str: the `vocabulary` of `WordPieceTokenizer`, and the lines of its file.

    Raises:
        ValueError: if the text has no words, or `vocabulary_size` has no room for the characters (the message names
            the smallest possible size).

    Source: Schuster & Nakajima 2012, "Japanese and Korean voice search".

    >>> pieces = learn_wordpieces(["a cat sat", "a cat ran"], vocabulary_size=20)
    >>> pieces[:5], "cat" in pieces
    (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], True)
    """
    check_positive("vocabulary_size", vocabulary_size)
    specials = list(SPECIALS.values())
    spec = tf.TensorSpec([None], tf.string)
    dataset = tf.data.Dataset.from_generator(lambda: portions(texts), output_signature=spec)
    dataset = dataset.map(lambda some: normalize_bert(some, lowercase))
    try:
        learnt = bert_vocab_from_dataset(dataset, vocabulary_size, specials, learn_params={"lower_thresh": 1})
    except StopIteration:
        raise ValueError("The text must have words. Received: texts without any") from None
    needed = {token for token in learnt if token in specials or len(token.removeprefix("##")) == 1}
    if len(needed) > vocabulary_size:
        raise ValueError(
            "The vocabulary is too small for the special tokens and the characters of the text: the smallest possible "
            f"size is {len(needed)}. Received: vocabulary_size={vocabulary_size}"
        )
    others = [token for token in learnt if token not in needed][: vocabulary_size - len(needed)]
    kept = needed.union(others)
    return [token for token in learnt if token in kept]
