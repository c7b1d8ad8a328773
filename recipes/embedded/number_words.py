"""A classification task made by code: which language a number is written in.

It needs no download, a small model learns it in a minute, and it cannot be answered from memory: the numbers of the
three splits are disjoint.
"""

import numpy as np

from keras_headattn.data import LabelledText
from recipes.embedded.numbers import SPLITS, assign_numbers, number_in_words, number_up_to

# Neighbours among them, so that single letters will not do.
LANGUAGES = {
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "sv": "Swedish",
}


def number_words(train_size=6_000, validation_size=600, test_size=600, seed=0):
    """Makes the three splits of the task: numbers to 999,999 in words, labelled by language.

    A number from 100 on belongs to one split alone, in whatever language; smaller ones, of which the others are made,
    to the training set. The languages are those of `LANGUAGES`, in turn.

    Args:
        train_size, validation_size, test_size: ints, examples of the splits. Default 6,000, 600 and 600.
        seed: int. Default 0.

    Returns:
        Dict of "train", "validation" and "test" to `LabelledText`.

    Raises:
        ImportError: if num2words is not installed.

    >>> task = number_words(24, 12, 12)
    >>> len(task["train"]), sorted(set(task["test"].labels))[:3]
    (24, ['Czech', 'Danish', 'Dutch'])
    """
    split_of = assign_numbers(seed)
    task = {}
    for split, size in enumerate((train_size, validation_size, test_size)):
        rng = np.random.default_rng([seed, split])
        languages = [list(LANGUAGES)[place % len(LANGUAGES)] for place in range(size)]
        texts = [number_in_words(_draw(rng, split, split_of), language) for language in languages]
        labels = [LANGUAGES[language] for language in languages]
        task[SPLITS[split]] = LabelledText(texts, labels, f"number words, {SPLITS[split]}")
    return task


def number_documents(size=800, seed=0):
    """Documents to pre-train an encoder on, without labels: numbers in words, all of a document in one language.

    The numbers are those of the training split of `number_words` with the same seed. The languages are those of
    `LANGUAGES`, in turn. A document has 4 to 12 lines of 2 to 6 numbers.

    Args:
        size: int, documents. Default 800: 680,000 characters.
        seed: int. Default 0.

    Returns:
        List of str, the lines, with an empty one after each document.

    Raises:
        ImportError: if num2words is not installed.

    >>> lines = number_documents(2)
    >>> lines.count(""), lines[-1]
    (2, '')
    """
    split_of, rng = assign_numbers(seed), np.random.default_rng([seed, len(SPLITS)])
    lines = []
    for place in range(size):
        language = list(LANGUAGES)[place % len(LANGUAGES)]
        for _ in range(rng.integers(4, 13)):
            numbers = [number_in_words(_draw(rng, 0, split_of), language) for _ in range(rng.integers(2, 7))]
            lines.append(", ".join(numbers))
        lines.append("")
    return lines


def _draw(rng, split, split_of):
    while True:
        number = number_up_to(rng, 6)
        if split_of[number] == split:
            return number
