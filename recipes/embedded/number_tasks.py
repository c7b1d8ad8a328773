"""Tasks made by code, as GLUE has them: acceptability, paraphrase, similarity, all about numbers in English; languages.

They need no download, and the sentences without labels, to pre-train an encoder on, are made in the same way. The
numbers of the three splits are disjoint.
"""

import math

import numpy as np

from keras_headattn.data import LabelledText
from recipes.embedded.number_words import number_words
from recipes.embedded.numbers import SPLITS, assign_numbers, number_in_words, number_up_to, numbers_corpus

# Words that count; two of them next to each other may be in either order.
COUNTS = {
    *"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split(),
    *"seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety".split(),
}


def number_tasks(task, train_size=4_000, validation_size=400, test_size=400, seed=0):
    """Makes the three splits of a task.

    | task | labels |
    |---|---|
    | `acceptability` | 0 for a sentence of which two neighbouring words are swapped, else 1 |
    | `paraphrase` | whether an amount in words and one in digits are the same, 1 or 0 |
    | `similarity` | how close two amounts are, 0 to 5: 5 for equal ones, 0 where one is ten times the other or more |
    | `language` | which of twelve languages a number is written in, as `number_words` makes them |

    Args:
        task: str.
        train_size, validation_size, test_size: ints, examples of the splits. Default 4,000, 400 and 400.
        seed: int. Default 0.

    Returns:
        Dict of "train", "validation" and "test" to `LabelledText`.

    Raises:
        ImportError: if num2words is not installed.

    >>> task = number_tasks("paraphrase", 8, 4, 4)
    >>> len(task["train"]), len(task["test"].second_texts), task["train"].labels[:4]
    (8, 4, ['0', '1', '0', '1'])
    """
    if task == "language":
        return number_words(train_size, validation_size, test_size, seed)
    sizes = dict(zip(SPLITS, (train_size, validation_size, test_size), strict=True))
    if task == "acceptability":
        corpora = numbers_corpus("de", *sizes.values(), seed=seed)
        rows = {name: _acceptability(corpora[name].source, seed, place) for place, name in enumerate(SPLITS)}
    else:
        make, split_of = {"paraphrase": _paraphrase, "similarity": _similarity}[task], assign_numbers(seed)
        rows = {}
        for place, (name, size) in enumerate(sizes.items()):
            rng = np.random.default_rng([seed, place])
            rows[name] = [make(rng, place, split_of, number) for number in range(size)]
    return {name: _corpus(found, f"number tasks, {task}, {name}") for name, found in rows.items()}


def number_sentences(size=8_000, seed=0):
    """Sentences to pre-train on: those of the translation task, and amounts in words and in digits side by side.

    Their numbers are those of the training splits.

    Args:
        size: int, half of each kind.
        seed: int. Default 0.

    Returns:
        List of str.
    """
    sentences = numbers_corpus("de", size // 2, 1, 1, seed=seed)["train"].source
    rng, split_of = np.random.default_rng([seed, 3]), assign_numbers(seed)
    amounts = [_amount(rng, 0, split_of) for _ in range(size - len(sentences))]
    return [*sentences, *(f"{in_words(amount)} is {in_digits(amount)}" for amount in amounts)]


def swap_words(words, rng):
    """Swaps two neighbouring words, so that the sentence is none that the generator makes.

    Args:
        words: list of two str or more, at least one of which does not count.
        rng: NumPy generator.

    Returns:
        `(words, place)`: the new list, and the place of the first of the two.

    >>> swap_words(["five", "euros"], np.random.default_rng(0))
    (['euros', 'five'], 0)
    """
    counts = [word.split("-")[0] in COUNTS for word in words]
    pairs = zip(words, words[1:], counts, counts[1:], strict=False)
    places = [place for place, (a, b, one, other) in enumerate(pairs) if a != b and not (one and other)]
    place = int(rng.choice(places))
    return [*words[:place], words[place + 1], words[place], *words[place + 2 :]], place


def in_words(amount):
    """An amount of cents in words.

    >>> in_words(503), in_words(200)
    ('five euros and three cents', 'two euros')
    """
    euros, cents = divmod(amount, 100)
    parts = [_count(euros, "euro")] * bool(euros) + [_count(cents, "cent")] * bool(cents)
    return " and ".join(parts)


def in_digits(amount):
    """An amount of cents in digits.

    >>> in_digits(503)
    '5.03 euros'
    """
    return f"{amount // 100}.{amount % 100:02d} euros"


def _count(number, unit):
    return f"{number_in_words(number, 'en')} {unit}{'' if number == 1 else 's'}"


def _acceptability(sentences, seed, place):
    rng = np.random.default_rng([seed, place, 1])
    rows = []
    for number, sentence in enumerate(sentences):
        words = sentence.split()
        # A sentence of one word, or of words that count alone, has nothing to swap.
        swaps = number % 2 and len(words) > 1 and not all(word.split("-")[0] in COUNTS for word in words)
        rows.append((" ".join(swap_words(words, rng)[0]) if swaps else sentence, str(int(not swaps))))
    return rows


def _paraphrase(rng, place, split_of, number):
    amount = _amount(rng, place, split_of)
    other = amount if number % 2 else _amount(rng, place, split_of)
    return in_words(amount), str(int(amount == other)), in_digits(other)


def _similarity(rng, place, split_of, number):
    amount = _amount(rng, place, split_of)
    other = max(1, round(amount * 10 ** rng.uniform(-1.2, 1.2))) if number % 8 else amount
    closeness = 5 * max(0.0, 1 - abs(math.log10(amount / other)))
    return in_words(amount), f"{closeness:.2f}", in_words(other)


def _amount(rng, place, split_of):
    """An amount of cents, whose euros are a number of this split."""
    while True:
        euros = number_up_to(rng, 4)
        if split_of[euros] == place:
            return 100 * euros + int(rng.integers(1, 100))


def _corpus(rows, name):
    texts, labels, *second = (list(values) for values in zip(*rows, strict=True))
    return LabelledText(texts, labels, name, second[0] if second else None)
