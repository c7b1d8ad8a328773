"""The texts that the settings of fine-tuning name."""

import dataclasses

from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.data import Corpora, named_files
from recipes.engine.settings import VALIDATION_SHARE
from recipes.engine.texts import data as sentences
from recipes.glue.demo import number_tasks
from recipes.glue.glue_files import find, read_file, read_split, read_tfds_split


def read_corpora(config):
    """Reads the texts that `config` names as `Corpora`.

    The test sets of GLUE's own data are its validation sets: those for testing have no labels.
    """
    corpora = _read_corpora(config)
    train = config.chosen(corpora.train).sample(config.train_examples, config.split_seed)
    return dataclasses.replace(corpora, train=_with_swapped(train) if config.swap_pairs else train)


def _with_swapped(corpus):
    """Repeats pairs with their texts swapped."""
    sides = [*corpus.texts, *corpus.second_texts], [*corpus.second_texts, *corpus.texts]
    return LabelledText(sides[0], [*corpus.labels, *corpus.labels], corpus.name, sides[1])


def _read_corpora(config):
    """Reads all that the settings name, with the whole training set."""
    task = config.glue_task
    if config.data == "built_in":
        made = number_tasks(config.task, seed=config.split_seed)
        corpora = Corpora(made["train"], made["validation"], {"test": made["test"]})
    elif task is None:
        return sentences.load_corpora(config)
    elif config.data == "train":
        corpora = _of_files(config)
    else:
        train = _part(task, "train", config.glue, config.split_seed)
        validation = _validation(task, config.glue, config.split_seed)
        corpora = Corpora(train, next(iter(validation.values())), validation)
    tests = {name: config.chosen(test) for name, test in corpora.tests.items()}
    return Corpora(corpora.train, config.chosen(corpora.validation), tests)


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary of `LabelledText` by name."""
    task = config.glue_task
    if files is not None and task is None:  # also of the synthetic data
        return sentences.read_tests(config, files)
    if files is not None:
        return _tests_of_files(files, task, config.encoding)
    if config.data == "built_in":
        return read_corpora(config).tests
    if task is None:
        return sentences.read_tests(config)
    if config.data != "train":
        tests = _validation(task, config.glue, config.split_seed)
    elif config.test:
        tests = _tests_of_files(config.test, task, config.encoding)
    elif config.validation_files:
        tests = {"dev": _read(config.validation_files, task, config.encoding)}
    else:  # a part of the training set
        return read_corpora(config).tests
    return {name: config.chosen(test) for name, test in tests.items()}


def read_unlabelled(task, folder=None, tfds=False, without=()):
    """Reads the test sets of a `GlueTask`, without labels, from the folder of GLUE or TensorFlow Datasets.

    Returns a dictionary of the name in a submission to `LabelledText`. Files that are not there are left out, and so
    are those of the names `without`.
    """
    corpora = {}
    for split, (name_there, name, rows) in task.tests.items():
        if name in without:
            continue
        if tfds:
            corpus = read_tfds_split(task, name_there, is_test=True)
        elif folder and (find(folder, task, split) or task.name == "mrpc"):
            corpus = read_split(folder, task, split)
        else:
            continue
        if len(corpus) != rows:
            print(f"{name} has {rows:,} test rows in GLUE. Received: {len(corpus):,} in {corpus.name}")
        corpora[name] = corpus
    return corpora


def _part(task, split, folder, seed):
    """Reads a labelled part of a task from the folder of GLUE or, without one, from TensorFlow Datasets."""
    if folder is None:
        return read_tfds_split(task, task.splits.get(split, split))
    return read_split(folder, task, split, seed)


def _validation(task, folder, seed):
    """Returns the validation sets of a task by name."""
    return {name: _part(task, name, folder, seed) for name in task.splits}


def _of_files(config):
    """Reads files of one's own in the columns of the task. Without files to test on, validation is scored."""
    read = dict(task=config.glue_task, encoding=config.encoding)
    train = _read(config.train, **read)
    if config.validation_files:
        validation = _read(config.validation_files, **read)
    else:
        train, validation = train.split([config.validation_share or VALIDATION_SHARE], config.split_seed)
    return Corpora(train, validation, _tests_of_files(config.test, **read) or {"dev": validation})


def _tests_of_files(files, task, encoding):
    return {name: _read(part, task, encoding) for name, part in named_files(files, r"[.]tsv").items()}


def _read(files, task, encoding):
    parts = [read_file(path, task, encoding=encoding) for path in files]
    texts, labels = ([value for part in parts for value in getattr(part, side)] for side in ("texts", "labels"))
    second = [text for part in parts for text in part.second_texts] if task.is_pair else None
    return dataclasses.replace(parts[0], texts=texts, labels=labels, second_texts=second)
