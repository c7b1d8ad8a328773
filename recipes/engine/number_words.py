"""A classification task made by code: which language a number is written in.

It needs no download, a small model learns it in a minute, and it cannot be answered from memory: the numbers of the
three splits are disjoint.
"""

import numpy as np

from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.numbers import SPLITS, assign_numbers, number_in_words, number_up_to

# Some are related, so that single letters do not give them away.
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
    """Makes the splits "train", "validation" and "test" of the task: `LabelledText`. It needs num2words.

    Texts are numbers to 999,999 in words, labelled by language, one of `LANGUAGES` in turn. A number from 100 on
    belongs to one split alone, in whatever language; smaller ones, of which the others are made, to the training set.

    >>> task = number_words(24, 12, 12)
    >>> len(task["train"]), sorted(set(task["test"].labels))[:3]
    (24, ['Czech', 'Danish', 'Dutch'])
    """
    split_of = assign_numbers(seed)
    task = {}
    for split, size in enumerate((train_size, validation_size, test_size)):
        rng = np.random.default_rng([seed, split])
        languages = [list(LANGUAGES)[index % len(LANGUAGES)] for index in range(size)]
        texts = [number_in_words(_draw(rng, split, split_of), language) for language in languages]
        labels = [LANGUAGES[language] for language in languages]
        task[SPLITS[split]] = LabelledText(texts, labels, f"number words, {SPLITS[split]}")
    return task


def number_documents(size=800, seed=0):
    """Makes documents to pre-train an encoder on: numbers in words that count upward, in twelve languages.

    A document is in one of `LANGUAGES`, in turn, and has 4 to 12 lines; the lines are returned, with an empty one after
    each document. A line counts from a number of at most four digits through the next 2 to 7 of the training split of
    `number_words` with the same seed: the words around one tell what it is, as in a real text. 800 documents have
    675,000 characters.

    >>> lines = number_documents(4)
    >>> lines.count(""), lines[-2]
    (4, 'eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen')
    """
    numbers = np.flatnonzero(assign_numbers(seed) == 0)
    rng = np.random.default_rng([seed, len(SPLITS)])
    lines = []
    for index in range(size):
        language = list(LANGUAGES)[index % len(LANGUAGES)]
        for _ in range(rng.integers(4, 13)):
            first = np.searchsorted(numbers, number_up_to(rng, 4))
            line = numbers[first : first + rng.integers(3, 9)]
            lines.append(", ".join(number_in_words(int(number), language) for number in line))
        lines.append("")
    return lines


def _draw(rng, split, split_of):
    while True:
        number = number_up_to(rng, 6)
        if split_of[number] == split:
            return number
