"""SavedModels of a run, tried out at once in a process that knows nothing of this library."""

import base64

import tensorflow as tf

from keras_headattn.data._image_ops import decode
from keras_headattn.serving import export_image_classifier, export_pixel_classifier
from recipes.engine.fresh_process import try_out
from recipes.images.data import evaluation_pixels

# Runs with TensorFlow alone, as a server would.
TRY_OUT = """
import base64, json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
path, files = json.load(sys.stdin)
classify = tf.saved_model.load(path).signatures["serving_default"]
found = classify(images=tf.constant([base64.b64decode(file) for file in files]))
names = [row[0].decode() for row in found["classes"].numpy()]
print(json.dumps([names, found["scores"][:, 0].numpy().tolist()]))
"""


def export(config, classifier, class_names, source=None):
    """Writes the SavedModels that take files and pixels, and prints what the first makes of a few images.

    Args:
        config: `ImageNetConfig`.
        classifier: the finished network, from pixels to logits.
        class_names: list of str.
        source: `ImageFiles` or `ImageRecords` to take samples from; `None`: no samples.

    Returns:
        Paths of the two SavedModels.
    """
    path = export_image_classifier(
        classifier, evaluation_pixels(config), class_names, config.export_folder, run=config.run
    )
    tensors_path = export_pixel_classifier(classifier, class_names, f"{config.export_folder}_tensors", run=config.run)
    print(f"SavedModels: {path} (image files), {tensors_path} (pixels)")
    if source is not None and config.samples:
        indices = range(0, len(source), max(1, len(source) // config.samples))[: config.samples]
        samples = _readable(source, indices)
        files = [base64.b64encode(file).decode() for *_, file in samples]
        for (name, label, _), found, score in zip(samples, *try_out(TRY_OUT, path, files), strict=True):
            print(f"  {name}: {found} ({score:.3f}), labelled {class_names[label]}")
    return path, tensors_path


def _readable(source, indices):
    """List of (name, label, bytes of the file) of those of the images that can be read."""
    samples = []
    for index in indices:
        try:
            data, label = source.load(tf.constant(index, tf.int64))
            decode(data)
        except tf.errors.OpError:  # reported already
            continue
        samples.append((source.name(index), int(label), data.numpy()))
    return samples
