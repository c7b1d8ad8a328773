"""Labelled texts of TensorFlow Datasets."""

from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.tfds import load_tfds


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
