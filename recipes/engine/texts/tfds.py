"""Labelled texts of TensorFlow Datasets."""

from headattn_io.labelled_text import LabelledText
from recipes.engine.tfds import load_tfds


def read_tfds_labelled(name, split, text, label, second=None):
    """Reads a split of TensorFlow Datasets, which downloads it on first use.

    Args:
        name: str, for instance "glue/sst2", "snli" or "yelp_polarity_reviews".
        split: str, for instance "train" or "train[:1%]".
        text: str, name of the feature with the text.
        label: str, the same of the label, whose classes get their names. What has no label has the name "-1".
        second: str, the same of the second text. Default `None`: there is none.

    Returns:
        `LabelledText`.

    Raises:
        ImportError: if tensorflow-datasets is not installed.
        OSError: if the data set is not on this machine and cannot be downloaded.
        ValueError: if the data set has no such feature, or the split no examples.
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
