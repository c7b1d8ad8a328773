"""The documents that the settings name."""

from recipes.engine.task import Corpora
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import read_eraser


def read_corpora(config):
    """Reads the three splits: `Corpora`, with the test set `"test"`."""
    how = config.eraser, config.split_seed, config.test_examples
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
    return annotation.query.split()
