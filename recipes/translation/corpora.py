"""The corpora a configuration names, cleaned."""

import dataclasses
import functools
import pathlib

from keras_headattn.data import (
    ParallelCorpus,
    clean,
    empty_pairs,
    iwslt_files,
    read_iwslt,
    read_text,
    read_tfds,
)


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Training, validation and named test sets. There is no training set here if it is in `--records`."""

    train: ParallelCorpus | None
    validation: ParallelCorpus
    tests: dict[str, ParallelCorpus]


def load_corpora(config):
    """Reads, checks and cleans what `config` names. Prints what was dropped.

    Returns:
        `Corpora`.
    """
    train = None
    if not config.records:
        train, report = clean(_read(config, "train"), config.max_words, config.max_ratio)
        print(report)
    corpora = Corpora(train, _read(config, "validation"), load_tests(config))
    check_sizes((corpora.validation, *corpora.tests.values()))
    return corpora


def check_sizes(corpora):
    """Prints which pairs of validation and test sets, which stay whole, have an empty side.

    Raises:
        ValueError: for a set without pairs.
    """
    for corpus in corpora:
        if not len(corpus):
            raise ValueError(f"A data set must not be empty. Received: {corpus.name}")
        if note := empty_pairs(corpus):
            print(note)


def stream_training(config):
    """The training corpus before cleaning, read anew whenever it is gone through where its size may need that.

    Returns:
        `ParallelCorpus`.
    """
    if config.data == "train":
        return read_text(*config.train, config.max_sentences, stream=True)
    if config.data == "tfds":
        languages = config.source_language, config.target_language
        return read_tfds(config.tfds, config.train_split, *languages, config.max_sentences, stream=True)
    return _read(config, "train")


def training_files(config):
    """Paths of the text files of the training corpus; none if it does not come from text files."""
    if config.data == "iwslt":
        languages = config.source_language, config.target_language
        return [
            path for split in config.train_split.split("+") for path in iwslt_files(config.iwslt, *languages, split)
        ]
    return [pathlib.Path(path) for path in config.train]


def load_tests(config):
    """The test sets alone, by name."""
    return {name: _read(config, "test", name) for name in test_names(config)}


def test_names(config):
    """Names of the test sets, which are the names of their folders in `results/`.

    Raises:
        ValueError: for two files of one name.
    """
    if config.data == "embedded":
        return ["test"]
    if config.data != "train":
        return list(config.test_splits)
    return list(_test_files(config.test))


def read_tests(files):
    """Test sets of text files: source target source target ...

    Raises:
        ValueError: for an odd number of files, two of one name, or sides of different length.
    """
    if len(files) % 2:
        raise ValueError(f"--test takes two files a test set, source and target. Received: {' '.join(files)}")
    return {name: read_text(*pair) for name, pair in _test_files(files).items()}


def _test_files(files):
    """Names of test sets and their two files. `data/test_2016_flickr.en.gz` is called test_2016_flickr."""
    pairs = {}
    for pair in zip(files[::2], files[1::2], strict=True):
        name = pathlib.Path(pair[0]).name.removesuffix(".gz").rsplit(".", 1)[0]
        if name in pairs:
            raise ValueError(
                f"Test sets are told apart by the names of their files. Received: {pairs[name][0]} and {pair[0]}"
            )
        pairs[name] = pair
    return pairs


def _read(config, part, name=None):
    """The part "train" or "validation", or the test set of this name."""
    languages = config.source_language, config.target_language
    split = name or {"train": config.train_split, "validation": config.validation_split}[part]
    if config.data == "embedded":
        corpus = _numbers(*languages)[part]
    elif config.data == "iwslt":
        corpus = read_iwslt(config.iwslt, *languages, split)
    elif config.data == "tfds":
        corpus = read_tfds(config.tfds, split, *languages, config.max_sentences)
    else:
        corpus = read_text(*(_test_files(config.test)[name] if name else getattr(config, part)))
    end = config.max_sentences
    return ParallelCorpus(corpus.source[:end], corpus.target[:end], corpus.name)


@functools.cache
def _numbers(source_language, target_language):
    if source_language != "en":
        raise ValueError(
            "The embedded task translates from English; give --train files for other languages. "
            f"Received: source_language={source_language}"
        )
    from recipes.embedded.numbers import numbers_corpus

    return numbers_corpus(target_language)
