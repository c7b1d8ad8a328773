"""The corpora a configuration names, cleaned."""

import dataclasses
import pathlib

from recipes.data.cleaning import clean
from recipes.data.parallel import ParallelCorpus, read_iwslt, read_text, read_tfds


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Training, validation and named test sets."""

    train: ParallelCorpus
    validation: ParallelCorpus
    tests: dict[str, ParallelCorpus]


def load_corpora(config):
    """Reads, checks and cleans what `config` names. Prints what was dropped.

    Returns:
        `Corpora`.
    """
    train, validation, tests = (read() for read in _readers(config))
    train, report = clean(train, config.max_words, config.max_ratio)
    print(report)
    return Corpora(train, validation, tests)


def load_tests(config):
    """The test sets alone, by name."""
    return _readers(config)[2]()


def _readers(config):
    """Functions that read the training set, the validation set and the test sets."""
    if config.train or config.test:
        return _files(config)
    return _collection(config) if config.iwslt or config.tfds else _numbers(config)


def _files(config):
    pairs = zip(config.test[::2], config.test[1::2], strict=True)
    return (
        lambda: read_text(*config.train),
        lambda: read_text(*config.validation),
        lambda: {_name(source): read_text(source, target) for source, target in pairs},
    )


def _collection(config):
    languages = config.source_language, config.target_language

    def read(split):
        if config.iwslt:
            return read_iwslt(config.iwslt, *languages, split)
        return read_tfds(config.tfds, split, *languages)

    return (
        lambda: read(config.train_split),
        lambda: read(config.validation_split),
        lambda: {split: read(split) for split in config.test_splits},
    )


def _numbers(config):
    if config.source_language != "en":
        raise ValueError(
            "The embedded task translates from English; give --train files for other languages. "
            f"Received: source_language={config.source_language}"
        )
    from recipes.data.numbers import numbers_corpus

    splits = numbers_corpus(config.target_language, seed=config.seed)
    return (lambda: splits["train"], lambda: splits["validation"], lambda: {"test": splits["test"]})


def _name(path):
    """`data/test_2016_flickr.en.gz` is called test_2016_flickr."""
    name = pathlib.Path(path).name
    return name.removesuffix(".gz").rsplit(".", 1)[0]
