"""The documents that the settings name."""

import dataclasses
import itertools

from recipes.engine.data import Corpora, fingerprint
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import read_eraser

SEPARATOR = "[sep]"  # of the choices in a query


def read_corpora(config):
    """Reads the three splits: `Corpora`, with the test set `"test"`. A class of these alone is a `ValueError`."""
    train, validation, test = (read_split(config, name) for name in ("train", "val", "test"))
    train = train.sample(config.train_examples, config.split_seed)
    classes, _ = classes_of(train)
    for corpus in (train, validation, test):
        labels_of(corpus, classes)  # an unknown class is reported before training, not after it
    return Corpora(train, validation, {"test": test})


def read_split(config, name):
    """Reads a split that the settings name, `EraserCorpus`: "train" in full, of "val" and "test" some examples."""
    seed = config.split_seed
    corpus = read_eraser(config.data_folder, name) if config.data_folder else reviews(seed=seed)[name]
    return corpus if name == "train" else corpus.sample(config.test_examples, seed)


def describe(corpora):
    """Returns sizes and checksums of the training and validation sets, without documents that no annotation names."""
    return fingerprint(Corpora(_only_read(corpora.train), _only_read(corpora.validation), {}))


def _only_read(corpus):
    names = sorted({docid for annotation in corpus.annotations for docid in annotation.docids})
    return dataclasses.replace(corpus, documents={name: corpus.documents[name] for name in names})


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
    ends = [index for index, word in enumerate([*query, SEPARATOR]) if word == SEPARATOR]
    return [query[begin + 1 : end] for begin, end in itertools.pairwise([-1, *ends])]


def classes_of(corpus):
    """Returns the classes of a training set, and how many choices its queries have; 1: they are not multiple-choice.

    The classes of questions with choices are letters, as in CoS-E.
    """
    counts = {len(choices_of(query_of(annotation))) for annotation in corpus.annotations}
    if len(counts) > 1:
        raise ValueError(f"{corpus.name}: all queries must have equally many choices. Received: {sorted(counts)}")
    (count,) = counts
    if count > 1:
        return [chr(ord("A") + index) for index in range(count)], count
    return sorted({annotation.classification for annotation in corpus.annotations}), 1


def labels_of(corpus, classes):
    """Numbers the classes of all annotations; one that the training set has not is a `ValueError`."""
    unknown = sorted({annotation.classification for annotation in corpus.annotations} - set(classes))
    if unknown:
        raise ValueError(f"{corpus.name}: the classes of the training set are {classes}. Received: {unknown[0]!r}")
    return [classes.index(annotation.classification) for annotation in corpus.annotations]
