"""What TensorBoard is given: the files are read back."""

import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib import colormaps
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_headattn.layers import InteractingHeadAttention
from keras_headattn.training import AttentionImages, EpochScore, HeadNorms, Resume, write_projector
from keras_headattn.training._callbacks import attention_images
from keras_headattn.training._callbacks.head_norms import head_norms

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def fit(*callbacks, epochs=3):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model.fit(X, Y, batch_size=2, epochs=epochs, shuffle=False, callbacks=list(callbacks), verbose=0).history


def events(folder):
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def steps(folder, tag):
    return [event.step for event in events(folder).Tensors(tag)]


def colors(weights):
    """Those of a picture of weights up to 1."""
    return {tuple(color) for color in colormaps["viridis"](weights.ravel(), bytes=True)[:, :3].tolist()}


def test_attention_images(tmp_path):
    maps = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
    images = {
        "0/cross_0": (maps[0], ["ein", "Haus"], ["a", "house", "</s>"]),
        "1/cross_0": (maps[1], ["das", "Haus", "ist", "alt"], list("abcde")),
    }
    fit(AttentionImages(tmp_path, lambda model: images, every=2), epochs=4)
    assert sorted(events(tmp_path).Tags()["tensors"]) == ["attention/0/cross_0", "attention/1/cross_0"]
    assert steps(tmp_path, "attention/1/cross_0") == [1, 3]
    for name, (weights, queries, keys) in images.items():
        *_, png = events(tmp_path).Tensors(f"attention/{name}")[0].tensor_proto.string_val
        pixels = {tuple(color) for color in tf.io.decode_png(png, channels=3).numpy().reshape(-1, 3).tolist()}
        words = colors(weights[:, : len(queries), : len(keys)])
        assert pixels & colors(weights) == words  # a square for each weight, and none for padding


def test_weights_below_zero_are_told_from_zero():
    below, zero = (attention_images._draw(np.array([[[weight, 0.5]]]), ["a"], ["b", "c"]) for weight in (-0.5, 0.0))
    assert below.shape == zero.shape and (below != zero).any()


def test_many_heads_are_drawn_in_rows_and_some_left_out():
    def shape(heads):
        return attention_images._draw(np.ones((heads, 2, 1)), ["a", "b"], ["c"]).shape

    height, width, _ = shape(8)
    assert shape(9)[0] > height and shape(9)[1] == width
    assert shape(64) == shape(16)


def test_matplotlib_is_asked_for_at_once(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras_headattn\[recipes\]"):
        AttentionImages(tmp_path, None)


def attentive_model():
    inputs = keras.Input((None, 8))
    x = keras.layers.MultiHeadAttention(2, 3, name="stock")(inputs, inputs)
    x = InteractingHeadAttention(4, 2, interaction="pairwise", name="pairs")(x, x)
    return keras.Model(inputs, keras.layers.Dense(1, name="query")(x))


def test_head_norms_are_those_of_the_kernels():
    model = attentive_model()
    norms = head_norms(model)
    assert {name: len(values) for name, values in norms.items()} == {
        **{f"stock/{side}": 2 for side in ("query", "key", "value", "attention_output")},
        **{f"pairs/{side}": 4 for side in ("query", "key", "value")},
        "pairs/attention_output": 16,
    }
    stock = model.get_layer("stock")
    query, output = stock.query_dense.kernel.numpy(), stock.output_dense.kernel.numpy()
    np.testing.assert_allclose(norms["stock/query"][1], np.linalg.norm(query[:, 1]), rtol=1e-6)
    np.testing.assert_allclose(norms["stock/attention_output"][1], np.linalg.norm(output[1]), rtol=1e-6)


def test_head_norms_of_equal_paths():
    inputs = hidden = keras.Input((3, 4))
    for _ in range(2):
        part = keras.Input((3, 4))
        attention = keras.layers.MultiHeadAttention(2, 2, name="attention")
        hidden = keras.Model(part, attention(part, part), name=f"part_{_}")(hidden)
    assert len(head_norms(keras.Model(inputs, hidden))) == 8


def test_head_norms_are_histograms(tmp_path):
    model = attentive_model()
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 3, 8)), np.ones((2, 3, 1)), epochs=2, verbose=0, callbacks=[HeadNorms(tmp_path)])
    assert steps(tmp_path, "head_norms/pairs/attention_output") == [0, 1]
    buckets = tf.make_ndarray(events(tmp_path).Tensors("head_norms/stock/key")[0].tensor_proto)
    assert buckets[:, 2].sum() == 2  # heads


@pytest.mark.parametrize("name", ["tokens", "..", "v1.2"])
def test_projector_finds_embeddings_and_labels(tmp_path, name):
    labels = ["<pad>", "a\tb", "\n", " ", "ü"]
    for scale in (1, 2):  # what was there is replaced
        write_projector(tmp_path, {name: (scale * np.eye(5), labels)})
    lines = (tmp_path / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
    assert lines == ["<pad>", "a\\tb", "\\n", "' '", "ü", ""]
    config = (tmp_path / "projector_config.pbtxt").read_text()
    tensor = config.split('tensor_name: "')[1].split('"')[0]
    checkpoint = tf.train.latest_checkpoint(str(tmp_path))
    np.testing.assert_array_equal(tf.train.load_checkpoint(checkpoint).get_tensor(tensor), 2 * np.eye(5))
    with pytest.raises(ValueError, match=f"Received: 1 labels for 5 rows of {name}"):
        write_projector(tmp_path, {name: (np.eye(5), ["a"])})
    write_projector(tmp_path, {"queries": (np.eye(2), {"token": ["a", "b"], "head": [0, 1]})})
    assert (tmp_path / "queries.tsv").read_text() == "token\thead\na\t0\nb\t1\n"


def test_tensorboard_and_hparams_are_the_stock_ones(tmp_path):
    """What this package leaves to others: the learning rate and hyperparameters in TensorBoard."""
    hparams = pytest.importorskip("tensorboard.plugins.hparams.api")
    score = EpochScore(lambda model: 1.0)
    fit(score, keras.callbacks.TensorBoard(tmp_path), hparams.KerasCallback(str(tmp_path), {"heads": 8}))
    assert "_hparams_/session_start_info" in events(tmp_path).Tags()["tensors"]
    for run, tag in (("train", "epoch_learning_rate"), ("validation", "epoch_bleu")):
        assert tag in events(tmp_path / run).Tags()["tensors"]


class Killed(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 6:  # of the second epoch's four, two
            raise KeyboardInterrupt


def test_curves_of_a_resumed_run_in_a_moved_folder_go_on(tmp_path):
    def callbacks(folder):
        return Resume(folder / "checkpoints", every=1), keras.callbacks.TensorBoard(folder / "logs", write_graph=False)

    resume, tensorboard = callbacks(tmp_path / "old")
    with pytest.raises(KeyboardInterrupt):
        fit(resume, tensorboard, Killed())
    tensorboard.on_train_end()
    shutil.move(tmp_path / "old", tmp_path / "new")
    history = fit(*callbacks(tmp_path / "new"))
    assert steps(tmp_path / "new" / "logs" / "train", "epoch_loss") == [0, 1, 2]
    found = [tf.make_ndarray(event.tensor_proto) for event in events(tmp_path / "new/logs/train").Tensors("epoch_loss")]
    np.testing.assert_allclose(found, history["loss"], rtol=1e-6)
