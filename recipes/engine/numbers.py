"""A translation task made by code: English numbers, dates and amounts, and the same in another language.

It needs no download, a small model learns it in minutes, and its test set cannot be answered from memory: the
numbers of the three splits are disjoint. Recipes run on it when they are given no data.
"""

import numpy as np

from keras_headattn._optional import optional_import
from keras_headattn.data._parallel import ParallelCorpus

# The same sentences in every language, but for kinds that num2words cannot write.
SENTENCES = {
    "en": {
        "cardinal": ("{}", "the number {}"),
        "ordinal": ("the {} day", "the {} word"),
        "year": ("in {}", "the year {}"),
        "date": ("the {}", "on the {}"),
        "money": ("{}", "the price is {}"),
    },
    "de": {
        "cardinal": ("{}", "die Zahl {}"),
        "ordinal": ("der {} Tag", "das {} Wort"),
        "year": ("im Jahr {}", "das Jahr {}"),
        "date": ("der {}", "am {}"),
        "money": ("{}", "der Preis ist {}"),
    },
    "fr": {
        "cardinal": ("{}", "le nombre {}"),
        "ordinal": ("le {} jour", "le {} mot"),
        "year": ("en {}", "l'année {}"),
        "date": ("le {}", "le {}"),
        "money": ("{}", "le prix est de {}"),
    },
    "cs": {
        "cardinal": ("{}", "číslo {}"),
        "year": ("v roce {}", "rok {}"),
        "money": ("{}", "cena je {}"),
    },
}
MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
}
DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
SPLITS = ("train", "validation", "test")


def numbers_corpus(target_language="de", train_size=20_000, validation_size=500, test_size=500, seed=0):
    """Makes the splits "train", "validation" and "test" of the task: `ParallelCorpus`. It needs num2words.

    The target language is "de", "fr" or "cs". Cardinals to 999,999, ordinals and whole euros to 9,999, years and dates
    from 1100 to 2099. Every number from 100 on belongs to one split alone, in whatever kind of sentence; smaller ones,
    of which the others are made, to the training set. No sentence comes twice. Czech has no ordinals and no dates, as
    num2words has no Czech ordinals; the corpus name lists the kinds.

    >>> corpus = numbers_corpus("de", train_size=100, validation_size=10, test_size=10)
    >>> len(corpus["train"]), len(corpus["test"])
    (100, 10)
    """
    if target_language not in SENTENCES or target_language == "en":
        raise ValueError(f'target_language must be "de", "fr" or "cs". Received: {target_language!r}')
    kinds = list(SENTENCES[target_language])
    split_of = assign_numbers(seed)
    corpora = {}
    for split, size in enumerate((train_size, validation_size, test_size)):
        examples = _draw(split, size, kinds, split_of, np.random.default_rng([seed, split]))
        corpora[SPLITS[split]] = ParallelCorpus(
            [_sentence("en", *example) for example in examples],
            [_sentence(target_language, *example) for example in examples],
            f"numbers en-{target_language} {SPLITS[split]} ({', '.join(kinds)})",
        )
    return corpora


def assign_numbers(seed):
    """Returns the split of every number below a million: 80, 10 and 10 percent, the first hundred all to training."""
    split_of = np.random.default_rng(seed).choice(len(SPLITS), size=1_000_000, p=(0.8, 0.1, 0.1))
    split_of[:100] = 0
    return split_of


def _draw(split, size, kinds, split_of, rng):
    """Draws `size` distinct examples (kind, numbers, frame); a dict, since sets have no order of their own."""
    examples = {}
    for _ in range(1_000 + 100 * size):
        if len(examples) == size:
            break
        kind = kinds[rng.integers(len(kinds))]
        numbers = _NUMBERS[kind](rng)
        if split_of[numbers[-1]] == split:
            examples[kind, numbers, int(rng.integers(2))] = None
    if len(examples) < size:
        raise ValueError(
            f"There are not enough different sentences for the {SPLITS[split]} split. "
            f"Received: {size}, of which {len(examples)} were found"
        )
    return list(examples)


def number_up_to(rng, digits):
    """Draws a number of at most so many digits, each number of digits equally likely."""
    digits = rng.integers(1, digits + 1)
    return int(rng.integers(10 ** (digits - 1) if digits > 1 else 0, 10**digits))


def _date(rng):
    month = int(rng.integers(12))
    return int(rng.integers(1, DAYS_IN_MONTH[month] + 1)), month, int(rng.integers(1100, 2100))


# The numbers of one sentence; the last decides the split.
_NUMBERS = {
    "cardinal": lambda rng: (number_up_to(rng, 6),),
    "ordinal": lambda rng: (number_up_to(rng, 4) or 10,),
    "year": lambda rng: (int(rng.integers(1100, 2100)),),
    "date": _date,
    "money": lambda rng: (int(rng.integers(1, 100)), number_up_to(rng, 4)),  # cents, euros
}


def _sentence(language, kind, numbers, frame):
    return SENTENCES[language][kind][frame].format(_words(language, kind, numbers, frame))


def _words(language, kind, numbers, frame):
    if kind == "date":
        day, month, year = numbers
        return f"{_day(language, day, month, frame)} {number_in_words(year, language, 'year')}"
    if kind == "money":
        cents, euros = numbers
        if language == "en":
            return f"{_count(euros, 'euro')} and {_count(cents, 'cent')}"
        return number_in_words(f"{euros}.{cents:02d}", language, "currency", currency="EUR")
    return number_in_words(numbers[0], language, kind)


def _day(language, day, month, frame):
    ordinal = number_in_words(day, language, "ordinal")
    name = MONTHS[language][month]
    if language == "en":
        return f"{ordinal} of {name}"
    if language == "de":
        return f"{ordinal}{'n' if frame == 1 else ''} {name}"  # der erste Mai, am ersten Mai
    # le premier mai, le deux mai
    return f"{ordinal if day == 1 else number_in_words(day, language, 'cardinal')} {name}"


def _count(number, unit):
    return f"{number_in_words(number, 'en', 'cardinal')} {unit}{'' if number == 1 else 's'}"


def number_in_words(number, language, to="cardinal", **kwargs):
    """Returns a number in words by num2words, whose arguments these are, without commas."""
    num2words = optional_import("num2words", "recipes").num2words
    return num2words(number, lang=language, to=to, **kwargs).replace(",", "")
