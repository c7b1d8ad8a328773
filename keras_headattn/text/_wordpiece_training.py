from collections.abc import Iterable

import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab.bert_vocab_from_dataset import bert_vocab_from_dataset

from keras_headattn._tensorflow import generated, untuned
from keras_headattn._validation import check_positive
from keras_headattn.text._pair_tokenizer import portions
from keras_headattn.text._wordpiece_tokenizer import SPECIALS, normalize_bert


def learn_wordpieces(texts: Iterable[str], vocabulary_size: int, lowercase: bool = True) -> list[str]:
    """Learns the `vocabulary` of a `WordPieceTokenizer` by tensorflow-text.

    Special tokens come first, in BERT's order: `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4. Then come all
    characters, at most the 1,000 most frequent, and longer pieces, most frequent first. The same text gives the same
    pieces. A million distinct words take minutes.

    Source: Schuster & Nakajima 2012, "Japanese and Korean voice search".

    Args:
        texts: iterable of str.
        vocabulary_size: largest number of tokens.
        lowercase: see `WordPieceTokenizer`.

    Raises:
        ValueError: if the text has no words, or more characters than `vocabulary_size` (naming the smallest possible
            size).

    >>> pieces = learn_wordpieces(["a cat sat", "a cat ran"], vocabulary_size=20)
    >>> pieces[:5], "cat" in pieces
    (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], True)
    """
    check_positive("vocabulary_size", vocabulary_size)
    specials = list(SPECIALS.values())
    spec = tf.TensorSpec([None], tf.string)
    dataset = generated(lambda: portions(texts), spec)
    dataset = untuned(dataset.map(lambda some: normalize_bert(some, lowercase)))
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
