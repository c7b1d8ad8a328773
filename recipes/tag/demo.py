"""A task made by code: sentences with names of persons, places and organisations, which need no download."""

import numpy as np

from recipes.tag.conll import TaggedText

SYLLABLES = (
    "ba bel bor dan den ek el fa gor hal ing jo kar ken lan lis mar mon nor ol per ran ros sol tar ul ven wes".split()
)
ENDINGS = {"LOC": ("ville", "burg", "port", "stad"), "PER": ("son", "a", "ek", "i"), "ORG": ("tec", "com", "ia", "ex")}
SENTENCES = [
    "PER was born in LOC .",
    "PER works for ORG in LOC .",
    "Shares of ORG rose by NUMBER percent on Monday .",
    "The mayor of LOC , PER , met PER .",
    "ORG of LOC has hired PER .",
    "It rained in LOC for NUMBER days .",
    "PER and PER left LOC yesterday .",
    "The company ORG is based in LOC , said PER .",
    "Nobody knew why the train was late .",
    "Trains from LOC to LOC were late .",
]


def names_in_sentences(train_size=2_000, validation_size=200, test_size=200, seed=0):
    """Makes the splits "train", "validation" and "test": `TaggedText`, in IOB2.

    Names are made of syllables, at random: those of the test set are mostly new.

    >>> corpus = names_in_sentences(2, 1, 1)["train"]
    >>> len(corpus), corpus.words[0][:3], corpus.tags[0][:3]
    (2, ['Nobody', 'knew', 'why'], ['O', 'O', 'O'])
    """
    sizes = {"train": train_size, "validation": validation_size, "test": test_size}
    return {
        name: _corpus(size, np.random.default_rng([seed, split]), name)
        for split, (name, size) in enumerate(sizes.items())
    }


def _corpus(size, rng, name):
    words, tags = [], []
    for _ in range(size):
        words.append([])
        tags.append([])
        for word in SENTENCES[rng.integers(len(SENTENCES))].split():
            parts = _parts(word, rng)
            words[-1] += parts
            tags[-1] += [f"{'I' if index else 'B'}-{word}" if word in ENDINGS else "O" for index in range(len(parts))]
    return TaggedText(words, tags, f"names in sentences, {name}")


def _parts(word, rng):
    """Returns the words that stand for one of a pattern."""
    if word == "NUMBER":
        return [str(rng.integers(2, 90))]
    if word not in ENDINGS:
        return [word]
    count = 1 + (word == "PER") * int(rng.integers(2)) + (word == "LOC") * int(rng.integers(4) == 0)
    names = [_name(word if index == count - 1 else "PER", rng) for index in range(count)]
    if word == "LOC" and count == 2:
        names[0] = str(rng.choice(["North", "New", "Saint"]))
    return names + (["Ltd"] if word == "ORG" and rng.integers(2) else [])


def _name(kind, rng):
    return ("".join(rng.choice(SYLLABLES, rng.integers(1, 3))) + rng.choice(ENDINGS[kind])).capitalize()
