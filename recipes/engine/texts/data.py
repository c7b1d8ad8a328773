"""The texts a configuration names."""

from keras_headattn.data._labelled_text import LabelledText, read_labelled
from recipes.engine.data import Corpora, load_tfds
from recipes.engine.number_words import number_words
from recipes.engine.settings import VALIDATION_SHARE


def load_corpora(config):
    """Reads the texts that `config` names as `Corpora`. Without files, other sets are shares of the training set.

    A set without examples but those of `--drop-labels` is a `ValueError`.
    """
    if config.data == "built_in":
        corpora = _synthetic(config.split_seed)
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


def _synthetic(seed):
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
    splits = dict(zip(wanted, parts, strict=True))
    validation = splits["validation"] if "validation" in splits else _read(config, config.validation_files)
    tests = {"test": splits["test"]} if "test" in splits else read_tests(config, config.test)
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
    indices = [index for index, texts in enumerate(sides) if all(texts)]
    if len(indices) == len(corpus):
        return corpus
    print(f"{corpus.name}: {len(corpus) - len(indices):,} of {len(corpus):,} examples have no text and are left out.")
    if not indices:
        raise ValueError(f"A data set must have texts. Received: {corpus.name}, which has none")
    return corpus.take(indices)


def read_tfds_labelled(name, split, text, label, second=None):
    """Reads a split of TensorFlow Datasets, which downloads it on first use, as `LabelledText`.

    Args:
        name: str, for instance "glue/sst2", "snli" or "yelp_polarity_reviews".
        split: str, for instance "train" or "train[:1%]".
        text, label, second: names of features; `second` is that of the second text, or `None`. Classes get their names;
            an example without a label has the label "-1".
    """
    with load_tfds(name) as tfds:
        dataset, info = tfds.load(name, split=split, with_info=True)
    named = {"text": text, "label": label, "second": second}
    for argument, column in named.items():
        if column is not None and column not in info.features:
            raise ValueError(
                f"Give --{argument}-column (`{argument}`): {name} has the features {', '.join(info.features)}. "
                f"Received: {column!r}"
            )
    columns = [column for column in named.values() if column is not None]
    class_names = getattr(info.features[label], "names", None)
    rows = dataset.map(lambda example: [example[column] for column in columns]).as_numpy_iterator()

    def string(column, value):
        if column == label and class_names and value >= 0:
            return class_names[value]
        return value.decode("utf-8").strip() if isinstance(value, bytes) else str(value)

    examples = ([string(*pair) for pair in zip(columns, row, strict=True)] for row in rows)
    return LabelledText.from_rows(examples, f"{name}, {split}")
