"""The documents that the settings name."""

import itertools

from recipes.engine.task import Corpora
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import read_eraser

SEPARATOR = "[sep]"  # of the choices in a query


def read_corpora(config):
    """Reads the three splits: `Corpora`, with the test set `"test"`."""
    how = config.data_folder, config.split_seed, config.test_examples
    found = {name: read_split(name, *how) for name in ("train", "val", "test")}
    train = found["train"].sample(config.train_examples, config.split_seed)
    return Corpora(train, found["val"], {"test": found["test"]})


def read_split(name, folder=None, seed=0, examples=None):
    """Reads a split of a folder, or of the embedded task, `EraserCorpus`; of "val" and "test" so many examples."""
    corpus = reviews(seed=seed)[name] if folder is None else read_eraser(folder, name)
    return corpus if name == "train" else corpus.sample(examples, seed)


def document_of(corpus, annotation):
    """Joins the words of all documents of an annotation."""
    return [word for docid in annotation.docids for word in corpus.words(docid)]


def query_of(annotation):
    """Returns the words of an annotation's query."""
    return annotation.query.replace(SEPARATOR, f" {SEPARATOR} ").split()


def choices_of(query):
    """Splits the words of a query into its choices.

    >>> choices_of(["antique", "shop", "[sep]", "house"])
    [['antique', 'shop'], ['house']]
    """
    ends = [place for place, word in enumerate([*query, SEPARATOR]) if word == SEPARATOR]
    return [query[begin + 1 : end] for begin, end in itertools.pairwise([-1, *ends])]


def classes_of(corpus):
    """Returns the classes of a training set, and how many choices its queries have; 1: they are not multiple-choice.

    The classes of questions with choices are letters, as in CoS-E.
    """
    counts = {len(choices_of(query_of(each))) for each in corpus.annotations}
    if len(counts) > 1:
        raise ValueError(f"{corpus.name}: all queries must have equally many choices. Received: {sorted(counts)}")
    (count,) = counts
    if count > 1:
        return [chr(ord("A") + place) for place in range(count)], count
    return sorted({each.classification for each in corpus.annotations}), 1
