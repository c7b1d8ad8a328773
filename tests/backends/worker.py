"""Runs what all rooms compute on the backend of this process: python -m tests.backends.worker FOLDER OUTPUTS.npz"""

import importlib
import pathlib
import sys

import numpy as np

ROOMS = ("layers", "models", "optimizers", "positions")
WITHOUT_TENSORFLOW = (
    "ops", "positions", "layers", "optimizers", "losses", "regularizers", "models", "decoding", "metrics", "analysis",
    "interop", "utils",
)  # fmt: skip


def imported():
    """Whether TensorFlow is there after imports of all rooms that need none."""
    for room in WITHOUT_TENSORFLOW:
        importlib.import_module(f"keras_headattn.{room}")
    return {"tensorflow_is_imported": np.array("tensorflow" in sys.modules)}


def without_tensorflow():
    """The errors of rooms that need TensorFlow where there is none."""
    import keras_headattn as ka

    rooms = {"data": "Records", "text": "WordTokenizer", "training": "Model", "serving": "export_translator"}
    kept, errors = sys.modules.get("tensorflow"), {}
    sys.modules["tensorflow"] = None
    for room, name in rooms.items():
        try:
            getattr(getattr(ka, room), name)
        except ImportError as error:
            errors[f"without_tensorflow/{room}"] = np.array(str(error))
    del sys.modules["tensorflow"]
    if kept is not None:
        sys.modules["tensorflow"] = kept
    return errors


def loss_gradient():
    """Taken off logits by a step of training; they are the rows of a table."""
    import keras

    from keras_headattn.losses import LabelSmoothedCrossentropy

    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 7, (3, 4)), rng.normal(scale=2.0, size=(12, 7)).astype("float32")
    table = keras.layers.Embedding(*logits.shape)
    model = keras.Sequential([table])
    model.build((None, 4))
    table.set_weights([logits])
    model.compile(keras.optimizers.SGD(1000.0), LabelSmoothedCrossentropy(0.1))
    model.train_on_batch(np.arange(12).reshape(3, 4), labels)
    return (logits - table.get_weights()[0]) / 1000


def everything(folder):
    """Results `room/result` of all rooms; an exception becomes `room/error`, so that the others are still compared."""
    out = {"losses/gradient": loss_gradient()}
    for room in ROOMS:
        try:
            worker = importlib.import_module(f"tests.{room}.backend_worker")
            out |= {f"{room}/{name}": value for name, value in worker.everything(pathlib.Path(folder) / room).items()}
        except Exception as error:
            out[f"{room}/error"] = np.array(f"{type(error).__name__}: {error}")
    return out


if __name__ == "__main__":
    outputs = imported() | without_tensorflow() | everything(sys.argv[1])
    import keras

    np.savez(sys.argv[2], backend=keras.backend.backend(), **outputs)
