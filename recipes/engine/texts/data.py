"""The texts a configuration names."""

from keras_headattn.data._labelled_text import read_labelled
from recipes.engine.corpora import Corpora
from recipes.engine.number_words import number_words
from recipes.engine.settings import VALIDATION_SHARE
from recipes.engine.texts.tfds import read_tfds_labelled


def load_corpora(config):
    """Reads the texts that `config` names as `Corpora`. Without files, other sets are shares of the training set.

    A set without examples but those of `--drop-labels` is a `ValueError`.
    """
    if config.data == "embedded":
        corpora = _embedded(config.split_seed)
    elif config.data == "tfds":
        corpora = Corpora(
            _read_split(config.tfds, config.splits["train"], config.columns),
            _read_split(config.tfds, config.splits["validation"], config.columns),
            read_tests(config),
        )
    else:
        corpora = _from_files(config)
    return Corpora(
        config.chosen(corpora.train),
        config.chosen(corpora.validation),
        {name: config.chosen(test) for name, test in corpora.tests.items()},
    )


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary of `LabelledText` by name."""
    if files is None and config.data == "tfds":
        return {name: config.chosen(_read_split(config.tfds, name, config.columns)) for name in config.test_splits}
    if files is None and not (config.data == "train" and config.test):
        return load_corpora(config).tests
    files = config.test if files is None else files
    return {name: config.chosen(_read(config, part)) for name, part in config.named_tests(files).items()}


def _embedded(seed):
    task = number_words(seed=seed)
    return Corpora(task["train"], task["validation"], {"test": task["test"]})


def _from_files(config):
    whole = _read(config, config.train)
    share = {
        "validation": 0 if config.validation_files else config.validation_share or VALIDATION_SHARE,
        "test": 0 if config.test else config.test_share,
    }
    wanted = [name for name in share if share[name]]
    train, *parts = whole.split([share[name] for name in wanted], config.split_seed) if wanted else [whole]
    found = dict(zip(wanted, parts, strict=True))
    validation = found["validation"] if "validation" in found else _read(config, config.validation_files)
    tests = {"test": found["test"]} if "test" in found else read_tests(config, config.test)
    return Corpora(train, validation, tests)


def _read(config, files):
    return _with_text(
        read_labelled(
            files,
            *config.columns,
            format=config.format,
            header=config.header,
            encoding=config.encoding,
            delimiter=config.delimiter,
            allow_unlabelled="" in config.drop_labels,
        )
    )


def _read_split(name, split, columns):
    return _with_text(read_tfds_labelled(name, split, *columns))


def _with_text(corpus):
    """Keeps the examples that have a text, and of pairs both; prints how many have not."""
    sides = zip(*filter(None, (corpus.texts, corpus.second_texts)), strict=True)
    places = [place for place, texts in enumerate(sides) if all(texts)]
    if len(places) == len(corpus):
        return corpus
    print(f"{corpus.name}: {len(corpus) - len(places):,} of {len(corpus):,} examples have no text and are left out.")
    if not places:
        raise ValueError(f"A data set must have texts. Received: {corpus.name}, which has none")
    return corpus.take(places)
