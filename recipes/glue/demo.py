"""Tasks made by code in the manner of GLUE: acceptability, paraphrase, similarity of numbers in English; languages.

They need no download. The sentences without labels, to pre-train an encoder on, are made in the same way. The numbers
of the three splits are disjoint.
"""

import math

import numpy as np

from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.number_words import number_words
from recipes.engine.numbers import SPLITS, assign_numbers, number_in_words, number_up_to, numbers_corpus

# Words that count; two of them next to each other may be in either order.
COUNTS = {
    *"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split(),
    *"seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety".split(),
}


def number_tasks(task, train_size=4_000, validation_size=400, test_size=400, seed=0):
    """Makes the splits "train", "validation" and "test" of a task: `LabelledText`. It needs num2words.

    | task | labels |
    |---|---|
    | `acceptability` | 0 for a sentence of which two neighbouring words are swapped, else 1 |
    | `paraphrase` | 1 if an amount in words and one in digits are the same, else 0 |
    | `similarity` | closeness of two amounts, 0 to 5: 5 for equal ones, 0 where one is ten times the other or more |
    | `language` | the one of twelve languages that a number is written in, as `number_words` makes them |

    The training split of `acceptability` has each sentence twice: whole, and with words left out at random, but for two
    that are swapped. So a classifier judges the order of words alone, and knows what it reads where an explanation
    removes words. Sizes are of whole sentences there.

    >>> task = number_tasks("paraphrase", 8, 4, 4)
    >>> len(task["train"]), len(task["test"].second_texts), task["train"].labels[:4]
    (8, 4, ['0', '1', '0', '1'])
    """
    if task == "language":
        return number_words(train_size, validation_size, test_size, seed)
    sizes = dict(zip(SPLITS, (train_size, validation_size, test_size), strict=True))
    if task == "acceptability":
        parts = _acceptability(sizes, seed)
        parts["train"] += _with_words_left_out(parts["train"], np.random.default_rng([seed, len(SPLITS), 1]))
        rows = {name: [row[:2] for row in part] for name, part in parts.items()}
    else:
        make, split_of = {"paraphrase": _paraphrase, "similarity": _similarity}[task], assign_numbers(seed)
        rows = {}
        for split, (name, size) in enumerate(sizes.items()):
            rng = np.random.default_rng([seed, split])
            rows[name] = [make(rng, split, split_of, index) for index in range(size)]
    return {name: _corpus(part, f"number tasks, {task}, {name}") for name, part in rows.items()}


def swapped_words(train_size=4_000, validation_size=400, test_size=400, seed=0):
    """Marks the swapped words of the sentences of `acceptability`: two booleans of a sentence are True, or none.

    The splits and arguments are those of `number_tasks`.

    >>> [sum(words) for words in swapped_words(4, 4, 4)["test"]]
    [0, 2, 0, 2]
    """
    sizes = dict(zip(SPLITS, (train_size, validation_size, test_size), strict=True))
    return {
        name: [
            [position is not None and index in (position, position + 1) for index, _ in enumerate(text.split())]
            for text, _, position in rows
        ]
        for name, rows in _acceptability(sizes, seed).items()
    }


def number_sentences(size=8_000, seed=0):
    """Makes sentences to pre-train on: half those of the translation task, half amounts in words and in digits.

    Their numbers are those of the training splits.
    """
    sentences = numbers_corpus("de", size // 2, 1, 1, seed=seed)["train"].source
    rng, split_of = np.random.default_rng([seed, 3]), assign_numbers(seed)
    amounts = [_amount(rng, 0, split_of) for _ in range(size - len(sentences))]
    return [*sentences, *(f"{in_words(amount)} is {in_digits(amount)}" for amount in amounts)]


def swap_words(words, rng):
    """Swaps two neighbouring words, so that the sentence is none that the generator makes; returns also their place.

    There must be two words or more, at least one of which does not count.

    >>> swap_words(["five", "euros"], np.random.default_rng(0))
    (['euros', 'five'], 0)
    """
    counts = [word.split("-")[0] in COUNTS for word in words]
    pairs = zip(words, words[1:], counts, counts[1:], strict=False)
    places = [index for index, (a, b, one, other) in enumerate(pairs) if a != b and not (one and other)]
    index = int(rng.choice(places))
    return [*words[:index], words[index + 1], words[index], *words[index + 2 :]], index


def in_words(amount):
    """Writes an amount of cents in words.

    >>> in_words(503), in_words(200)
    ('five euros and three cents', 'two euros')
    """
    euros, cents = divmod(amount, 100)
    parts = [_count(euros, "euro")] * bool(euros) + [_count(cents, "cent")] * bool(cents)
    return " and ".join(parts)


def in_digits(amount):
    """Writes an amount of cents in digits.

    >>> in_digits(503)
    '5.03 euros'
    """
    return f"{amount // 100}.{amount % 100:02d} euros"


def _count(number, unit):
    return f"{number_in_words(number, 'en')} {unit}{'' if number == 1 else 's'}"


def _acceptability(sizes, seed):
    """Makes for each split the sentences, their labels, and the place of the first of two swapped words."""
    corpora = numbers_corpus("de", *sizes.values(), seed=seed)
    parts = {}
    for split, name in enumerate(SPLITS):
        rng, rows = np.random.default_rng([seed, split, 1]), []
        for index, sentence in enumerate(corpora[name].source):
            words, position = sentence.split(), None
            # A sentence of one word, or of words that count alone, has nothing to swap.
            if index % 2 and len(words) > 1 and not all(word.split("-")[0] in COUNTS for word in words):
                words, position = swap_words(words, rng)
            rows.append((sentence if position is None else " ".join(words), str(int(position is None)), position))
        parts[name] = rows
    return parts


def _with_words_left_out(rows, rng):
    """Leaves out some words of the sentences, any but two that are swapped."""
    shortened = []
    for text, label, position in rows:
        words = text.split()
        free = [index for index in range(len(words)) if position is None or index not in (position, position + 1)]
        most = len(free) - (position is None)  # one word is left
        lost = rng.choice(free, rng.integers(1, most + 1), replace=False) if most > 0 else []
        shortened.append((" ".join(word for index, word in enumerate(words) if index not in lost), label, position))
    return shortened


def _paraphrase(rng, split, split_of, index):
    amount = _amount(rng, split, split_of)
    other = amount if index % 2 else _amount(rng, split, split_of)
    return in_words(amount), str(int(amount == other)), in_digits(other)


def _similarity(rng, split, split_of, index):
    amount = _amount(rng, split, split_of)
    other = max(1, round(amount * 10 ** rng.uniform(-1.2, 1.2))) if index % 8 else amount
    closeness = 5 * max(0.0, 1 - abs(math.log10(amount / other)))
    return in_words(amount), f"{closeness:.2f}", in_words(other)


def _amount(rng, split, split_of):
    """Returns an amount of cents, whose euros are a number of this split."""
    while True:
        euros = number_up_to(rng, 4)
        if split_of[euros] == split:
            return 100 * euros + int(rng.integers(1, 100))


def _corpus(rows, name):
    texts, labels, *second = (list(values) for values in zip(*rows, strict=True))
    return LabelledText(texts, labels, name, second[0] if second else None)
