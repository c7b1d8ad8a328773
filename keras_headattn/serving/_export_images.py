"""A classifier of images as a SavedModel: from files, or from pixels."""

import tensorflow as tf

from keras_headattn.serving._classes import likeliest, save_signatures


def export_image_files(model, preprocess, class_names, folder, top=5):
    """Writes a SavedModel that takes the bytes of image files.

    It runs wherever TensorFlow does; this library is not needed there. Its signature `serving_default` takes strings
    `images` `(B,)`, each a whole JPEG, PNG, GIF or BMP file, and returns `classes` `(B, top)`, strings, the likeliest
    first, and their probabilities, `scores` `(B, top)`, float32. A file that cannot be decoded is an error.

    Args:
        model: Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function of the bytes of one file, a scalar string tensor, that returns its pixels, `(height,
            width, 3)`: decoded, resized, cropped.
        class_names: list of C str.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        top: int, how many classes are returned; all, if there are fewer. Default 5.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the model has another number of classes than there are names.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_image_files(model, preprocess, ["cat", "dog"], "saved_models/pets")
    with open("cat.jpg", "rb") as file:
        images = tf.constant([file.read()])
    tf.saved_model.load(path).signatures["serving_default"](images=images)["classes"]
    ```
    """
    classify = likeliest(model, class_names, top)
    _, *shape = model.input_shape

    def files(images):
        pixels = tf.map_fn(preprocess, images, fn_output_signature=tf.TensorSpec(shape, tf.uint8))
        return classify(pixels)

    images = tf.TensorSpec((None,), tf.string, name="images")
    return save_signatures({"serving_default": (files, [images])}, folder, model)


def export_image_tensors(model, class_names, folder, top=5):
    """Writes a SavedModel that takes pixels, for programs that decode images themselves.

    Its signature `serving_default` takes float32 `images` `(B, height, width, 3)`, 0 to 255, and `uint8` the same as
    uint8; both return what that of `export_image_files` does.

    Args:
        model, class_names, folder, top: as `export_image_files` takes them.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError, OSError: as `export_image_files`.

    Example:

    ```python
    path = export_image_tensors(model, ["cat", "dog"], "saved_models/pets_tensors")
    pixels = tf.zeros((1, 224, 224, 3))
    tf.saved_model.load(path).signatures["serving_default"](images=pixels)["scores"]
    ```
    """
    classify = likeliest(model, class_names, top)
    _, *shape = model.input_shape
    signatures = {
        name: (classify, [tf.TensorSpec((None, *shape), dtype, name="images")])
        for name, dtype in (("serving_default", tf.float32), ("uint8", tf.uint8))
    }
    return save_signatures(signatures, folder, model)
