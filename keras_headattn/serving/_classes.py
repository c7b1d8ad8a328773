"""What exported classifiers of images and of texts have in common."""

import tensorflow as tf

from keras_headattn.serving._versions import write_version


def likeliest(model, class_names, top=None):
    """A function of the model's inputs that gives the names of classes, the likeliest first, and their probabilities.

    Args:
        model: function from inputs to logits `(B, C)`, which takes `training`.
        class_names: list of C str.
        top: int, how many classes are returned. Default `None`: all.

    Returns:
        Function that returns a dictionary of `classes` `(B, top)`, strings, and `scores` `(B, top)`, float32. It raises
        a ValueError if the model has another number of classes than there are names.
    """
    class_names = list(class_names)
    names = tf.constant(class_names)
    top = len(class_names) if top is None else min(top, len(class_names))

    def classify(inputs):
        logits = tf.cast(model(inputs, training=False), tf.float32)
        if logits.shape[-1] != len(class_names):
            raise ValueError(
                f"`class_names` must be as many as the classes of the model, {logits.shape[-1]}. "
                f"Received: {len(class_names)} names"
            )
        scores, labels = tf.math.top_k(tf.nn.softmax(logits), top)
        return {"classes": tf.gather(names, labels), "scores": scores}

    return classify


def save_signatures(signatures, folder, model, tokenizers=()):
    """Writes functions as the signatures of a SavedModel.

    Args:
        signatures: dictionary of name to a function and the list of `tf.TensorSpec` of its arguments.
        folder: str or path, where the next version is written.
        model: whose Keras variables, `model.variables`, the functions use. It may be built by them.
        tokenizers: layers that the functions use.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        OSError: if it cannot be written.
    """
    functions = {
        name: tf.function(function, autograph=False).get_concrete_function(*specs)
        for name, (function, specs) in signatures.items()
    }
    module = tf.Module()  # what the signatures use must be within reach of it
    module.variables_of_model = [variable.value for variable in model.variables]
    module.tokenizers = list(tokenizers)
    return write_version(folder, lambda path: tf.saved_model.save(module, path, functions))
