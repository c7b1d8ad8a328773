"""Corpora that a configuration names, cleaned."""

import functools
import pathlib

import numpy as np

from keras_headattn.data._parallel import ParallelCorpus, read_pairs, read_text
from recipes.engine.data import Corpora, is_cached
from recipes.engine.numbers import numbers_corpus
from recipes.translate.cached import read_cached
from recipes.translate.cleaning import clean, empty_pairs
from recipes.translate.iwslt import iwslt_files, read_iwslt
from recipes.translate.tfds import read_tfds


def load_corpora(config):
    """Reads, checks and cleans the corpora that `config` names: `Corpora`. Prints what was dropped."""
    train = None if config.records else _read(config, "train")
    if config.validation_share:
        train, validation = _split(train, config.validation_share)
    else:
        validation = _read(config, "validation")
    if train is not None:
        train, report = clean(train, config.max_words, config.max_ratio)
        print(report)
        print(f"A pair to train on, {' -> '.join(config.languages)}:\n  {train.source[0]}\n  {train.target[0]}")
    corpora = Corpora(train, validation, load_tests(config))
    check_sizes((corpora.validation, *corpora.tests.values()))
    return corpora


def _split(corpus, share):
    """Takes a share of the pairs for validation, the same ones in each run; all repetitions of a pair stay together."""
    pairs = list(dict.fromkeys(corpus))
    order = np.random.default_rng(0).permutation(len(pairs))
    held_out = {pairs[index] for index in order[: max(1, round(share * len(pairs)))]}
    parts = ([pair for pair in corpus if pair not in held_out], [pair for pair in pairs if pair in held_out])
    if not parts[0]:
        raise ValueError(f"--validation must leave pairs to train on. Received: {share} of {len(pairs)}")
    names = corpus.name, f"{share:g} of {corpus.name}"
    return [ParallelCorpus(*map(list, zip(*part, strict=True)), name) for part, name in zip(parts, names, strict=True)]


def check_sizes(corpora):
    """Prints which pairs of validation and test sets, which stay whole, have an empty side; empty sets are errors."""
    for corpus in corpora:
        if not len(corpus):
            raise ValueError(f"A data set must not be empty. Received: {corpus.name}")
        if note := empty_pairs(corpus):
            print(note)


def stream_training(config):
    """Returns the training corpus before cleaning, which is read anew each time if its size may need that."""
    if config.data == "train":
        return read_files(config.train, config.columns, config.max_sentences, stream=True)
    if config.data == "tfds":
        return read_tfds(config.tfds, config.splits["train"], *config.languages, config.max_sentences, stream=True)
    return _read(config, "train")


def training_files(config):
    """Returns the paths of the text files of the training corpus; none if it does not come from text files."""
    if config.data == "iwslt":
        splits = config.splits["train"].split("+")
        return [path for split in splits for path in iwslt_files(config.iwslt, *config.languages, split)]
    return [pathlib.Path(path) for path in config.train]


def load_tests(config):
    """Reads the test sets alone, by name."""
    return {name: _read(config, "test", name) for name in config.names_of_tests}


def read_files(files, columns=(1, 2), max_sentences=None, languages=("en", "de"), **options):
    """Reads two files, source and target, or one with both; `options` are those of `read_text`.

    `languages` are those of a set in sacreBLEU's cache.
    """
    if is_cached(files[0]):
        return read_cached(files[0], *languages)
    if len(files) == 1:
        return read_pairs(*files, columns, max_sentences, **options)
    return read_text(*files, max_sentences, **options)


def _read(config, part, name=None):
    """Reads the part "train" or "validation", or the test set of this name."""
    languages, end = config.languages, config.max_sentences
    files = config.test_sets[name] if name else config.splits[part]
    if config.data == "built_in":
        corpus = _numbers(*languages)[part]
    elif config.data == "train":
        part_files = config.train if part == "train" else config.validation
        corpus = read_files(files if name else part_files, config.columns, end, languages)
    elif is_cached(files):
        corpus = read_cached(files, *languages)
    elif config.data == "iwslt":
        corpus = read_iwslt(config.iwslt, *languages, files)
    else:
        corpus = read_tfds(config.tfds, files, *languages, end)
    return ParallelCorpus(corpus.source[:end], corpus.target[:end], corpus.name)


@functools.cache
def _numbers(source_language, target_language):
    if source_language != "en":
        raise ValueError(
            "The synthetic task translates from English; give --train files for other languages. "
            f"Received: source_language={source_language}"
        )

    return numbers_corpus(target_language)
