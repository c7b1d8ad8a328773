"""Classes of single image files."""

import keras
import tensorflow as tf

from recipes.images.data import evaluation_pixels


def classify(classifier, config, class_names, files, top=1, batch_size=32):
    """Yields the name of each file and texts of its likeliest classes, with their probabilities.

    Args:
        classifier: the finished network, from pixels to logits.
        config: `ImageNetConfig`.
        class_names: list of str.
        files: list of paths.
        top: int, how many classes.
        batch_size: int, files read at a time.
    """
    pixels_of = evaluation_pixels(config)
    for begin in range(0, len(files), batch_size):
        found = {}
        for name in files[begin : begin + batch_size]:
            try:
                found[name] = pixels_of(tf.io.read_file(name))
            except tf.errors.OpError:
                yield name, ["not an image that can be read"]
        if found:
            scores = keras.ops.softmax(classifier(tf.stack(list(found.values())), training=False))
            for name, row in zip(found, scores.numpy(), strict=True):
                order = row.argsort()[::-1][:top]
                yield name, [f"{class_names[label]} {row[label]:.3f}" for label in order]
