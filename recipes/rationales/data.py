"""The documents that the settings name."""

from recipes.engine.task import Corpora
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import read_eraser


def read_corpora(config):
    """Reads the three splits: `Corpora`, with the test set `"test"`."""
    found = {name: read_split(config, name) for name in ("train", "val", "test")}
    train = found["train"].sample(config.train_examples, config.split_seed)
    return Corpora(train, found["val"], {"test": found["test"]})


def read_split(config, name):
    """Reads a split, `EraserCorpus`; of "val" and "test" as many examples as the settings say."""
    corpus = reviews(seed=config.split_seed)[name] if config.data == "embedded" else read_eraser(config.eraser, name)
    return corpus if name == "train" else corpus.sample(config.test_examples, config.split_seed)


def document_of(corpus, annotation):
    """Joins the words of all documents of an annotation."""
    return [word for docid in annotation.docids for word in corpus.words(docid)]


def query_of(annotation):
    """Returns the words of an annotation's query."""
    return annotation.query.split()
