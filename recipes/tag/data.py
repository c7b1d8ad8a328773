"""The sentences that the settings of tagging name."""

from recipes.engine.data import Corpora
from recipes.engine.settings import VALIDATION_SHARE
from recipes.tag.conll import read_conll
from recipes.tag.demo import names_in_sentences


def read_corpora(config):
    """Reads the sentences that `config` names as `Corpora`. Without files to test on, validation is scored."""
    if config.built_in:
        made = names_in_sentences(seed=config.split_seed)
        corpora = Corpora(made["train"], made["validation"], {"test": made["test"]})
    else:
        train = _read(config, config.train)
        if config.validation_files:
            validation = _read(config, config.validation_files)
        else:
            train, validation = train.split([config.validation_share or VALIDATION_SHARE], config.split_seed)
        corpora = Corpora(train, validation, _read_all(config, config.test) or {"dev": validation})
    train, validation, *tests = (
        part.sample(config.max_examples, config.split_seed)
        for part in (corpora.train, corpora.validation, *corpora.tests.values())
    )
    return Corpora(train, validation, dict(zip(corpora.tests, tests, strict=True)))


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary of `TaggedText` by name."""
    return read_corpora(config).tests if files is None else _read_all(config, files)


def _read_all(config, files):
    return {name: _read(config, part) for name, part in config.named_tests(files).items()}


def _read(config, files):
    return read_conll(files, config.word_column, config.tag_column, config.delimiter, config.encoding)
