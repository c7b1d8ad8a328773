"""The texts that the settings of fine-tuning name."""

import dataclasses

from headattn_io.labelled_text import LabelledText
from recipes.engine.task import Corpora, named_files
from recipes.engine.texts import data as sentences
from recipes.glue.demo import number_tasks
from recipes.glue.glue_files import find, read_file, read_split, read_tfds_split


def read_corpora(config):
    """Reads what `config` names.

    The test sets of GLUE's own data are its validation sets: those for testing have no labels.

    Returns:
        `Corpora`.

    Raises:
        ValueError: if a set has no examples.
    """
    corpora = _read_corpora(config)
    train = sentences.chosen(config, corpora.train).sample(config.train_examples, config.split_seed)
    return dataclasses.replace(corpora, train=_with_swapped(train) if config.swap_pairs else train)


def _with_swapped(corpus):
    """Pairs, and then the same with their texts swapped."""
    sides = [*corpus.texts, *corpus.second_texts], [*corpus.second_texts, *corpus.texts]
    return LabelledText(sides[0], [*corpus.labels, *corpus.labels], corpus.name, sides[1])


def _read_corpora(config):
    """All that the settings name, but with the whole training set."""
    task = config.glue_task
    if config.data == "embedded":
        made = number_tasks(config.task, seed=config.split_seed)
        corpora = Corpora(made["train"], made["validation"], {"test": made["test"]})
    elif task is None:
        return sentences.load_corpora(config)
    elif config.data == "train":
        corpora = _of_files(config)
    else:
        train, validation = _part(config, "train"), _validation(config)
        corpora = Corpora(train, next(iter(validation.values())), validation)
    tests = {name: sentences.chosen(config, test) for name, test in corpora.tests.items()}
    return Corpora(corpora.train, sentences.chosen(config, corpora.validation), tests)


def read_tests(config, files=None):
    """Test sets: those in files, or for `None` those of the settings: dictionary of `LabelledText` by name."""
    if files is not None:  # what is made by code has the columns of texts of one's own
        return (sentences.read_tests if config.glue_task is None else _tests_of_files)(config, files)
    if config.data == "embedded":
        return read_corpora(config).tests
    if config.glue_task is None:
        return sentences.load_tests(config)
    if config.data != "train":
        tests = _validation(config)
    elif config.test or config.validation:
        tests = _tests_of_files(config, config.test) or {"dev": _read(config, config.validation)}
    else:  # a part of the training set
        return read_corpora(config).tests
    return {name: sentences.chosen(config, test) for name, test in tests.items()}


def names_of_tests(config):
    """Names of the test sets of the settings."""
    if config.data == "embedded":
        return ["test"]
    if config.glue_task is None:
        return sentences.names_of_tests(config)
    if config.data == "train":
        return list(named_files(config.test, r"[.]tsv")) or ["dev"]
    return list(config.glue_task.splits)


def read_unlabelled(config, without=()):
    """The test sets of GLUE that have no labels: dictionary of the name in a submission to `LabelledText`.

    Files that are not there are left out, as are those of the names `without`, which are not read.
    """
    task, found = config.glue_task, {}
    for split, (name_there, name, rows) in task.tests.items():
        if name in without:
            continue
        if config.data == "tfds":
            corpus = read_tfds_split(task, name_there, is_test=True)
        elif config.glue and (find(config.glue, task, split) or task.name == "mrpc"):
            corpus = read_split(config.glue, task, split)
        else:
            continue
        if len(corpus) != rows:
            print(f"{name} has {rows:,} test rows in GLUE. Received: {len(corpus):,} in {corpus.name}")
        found[name] = corpus
    return found


def _part(config, split):
    """A labelled part of a task: its training set, or one of its validation sets."""
    task = config.glue_task
    if config.data == "tfds":
        return read_tfds_split(task, task.splits.get(split, split))
    return read_split(config.glue, task, split, config.split_seed)


def _validation(config):
    """The validation sets of a task by name."""
    return {name: _part(config, name) for name in config.glue_task.splits}


def _of_files(config):
    """Files of one's own in the columns of the task. Those for validation are scored, where there is no test."""
    train = _read(config, config.train)
    if config.validation:
        validation = _read(config, config.validation)
    else:
        train, validation = train.split([config.validation_share], config.split_seed)
    return Corpora(train, validation, _tests_of_files(config, config.test) or {"dev": validation})


def _tests_of_files(config, files):
    return {name: _read(config, part) for name, part in named_files(files, r"[.]tsv").items()}


def _read(config, files):
    parts = [read_file(path, config.glue_task, encoding=config.encoding) for path in files]
    texts, labels = ([value for part in parts for value in getattr(part, side)] for side in ("texts", "labels"))
    second = [text for part in parts for text in part.second_texts] if config.glue_task.is_pair else None
    return dataclasses.replace(parts[0], texts=texts, labels=labels, second_texts=second)
