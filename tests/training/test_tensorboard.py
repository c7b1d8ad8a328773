"""What TensorBoard is given: the files are read back."""

import itertools
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib import colormaps
from matplotlib.text import Text
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_headattn.analysis import attention_maps, draw_confusion_matrix
from keras_headattn.layers import InteractingHeadAttention, MixtureOfHeadsAttention
from keras_headattn.training import (
    AttentionImages,
    EpochScore,
    HeadStatistics,
    Resume,
    TensorBoardCurves,
    write_projector,
)
from keras_headattn.training._callbacks import attention_images
from keras_headattn.training._callbacks.head_statistics import draw_norms, head_norms

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def fit(*callbacks, epochs=3, validate=False, **arguments):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse", **arguments)
    held_out = (X, Y) if validate else None
    found = model.fit(X, Y, 2, epochs, shuffle=False, callbacks=list(callbacks), verbose=0, validation_data=held_out)
    return found.history


def events(folder):
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def steps(folder, tag):
    return [event.step for event in events(folder).Tensors(tag)]


def colors(weights):
    """Those of a picture of weights up to 1."""
    return {tuple(color) for color in colormaps["Blues"](weights.ravel(), bytes=True)[:, :3].tolist()}


def test_attention_images(tmp_path):
    maps = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
    images = {
        "sentence 1/cross": (maps[0], ["ein", "Haus"], ["a", "house", "</s>"]),
        "sentence 2/cross": (maps[1], ["das", "Haus", "ist", "alt"], list("abcde")),
    }
    fit(AttentionImages(tmp_path, lambda model: images, every=2), epochs=4)
    assert sorted(events(tmp_path).Tags()["tensors"]) == ["maps/sentence 1/cross", "maps/sentence 2/cross"]
    assert steps(tmp_path, "maps/sentence 2/cross") == [2, 4]
    for name, (weights, queries, keys) in images.items():
        *_, png = events(tmp_path).Tensors(f"maps/{name}")[0].tensor_proto.string_val
        pixels = {tuple(color) for color in tf.io.decode_png(png, channels=3).numpy().reshape(-1, 3).tolist()}
        words = colors(weights[:, : len(queries), : len(keys)])
        assert words <= pixels  # a square for each weight
        figure = attention_images.draw_heads(weights, queries, keys, "title")
        picture = np.asarray(figure.axes[0].get_images()[0].get_array())
        assert np.isin(picture[~np.isnan(picture)], weights[:, : len(queries), : len(keys)]).all()
        assert np.sum(~np.isnan(picture)) == len(weights) * len(queries) * len(keys)  # and none for padding


def test_maps_have_a_title_names_of_axes_and_a_colour_bar():
    figure = attention_images.draw_heads(np.full((2, 1, 2), 0.5), ["ein"], ["a", "house"], "sentence 1, epoch 3")
    axes, bar = figure.axes
    assert figure.get_suptitle() == "sentence 1, epoch 3" and bar.get_xlabel() == "weight"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key: is attended to", "query: attends")
    assert [text.get_text() for text in axes.texts] == ["head 1", "a", "house", "head 2", "a", "house"]
    assert axes.get_images()[0].get_clim() == (0, 1)


def test_weights_below_zero_are_told_from_zero():
    figure = attention_images.draw_heads(np.array([[[-0.5, 0.0]]]), ["a"], ["b", "c"], "")
    (picture,) = figure.axes[0].get_images()
    assert picture.get_clim() == (-0.5, 0.5)
    (red, _, blue, _), (white, *_) = picture.to_rgba(np.array([-0.5, 0.0]))
    assert red > blue and white > 0.9


def is_legible(figure):
    """True if a card of TensorBoard's, 350 pixels wide, shows the text of a picture in full size, each in its place."""
    figure.set_dpi(100)
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = {text: text.get_window_extent() for text in texts}
    width, height = figure.get_size_inches()
    drawn = figure.get_tightbbox()
    assert min(drawn.x0, drawn.y0) > -0.01 and drawn.x1 < width + 0.01 and drawn.y1 < height + 0.01
    for one, other in itertools.combinations(texts, 2):
        assert not boxes[one].overlaps(boxes[other]), (one, other)
    return width <= 3.6 and all(text.get_fontsize() >= 6 for text in texts)


def test_text_can_be_read_in_a_card():
    tokens = [f"token {number}" for number in range(16)]
    assert is_legible(attention_images.draw_heads(np.full((8, 16, 16), 0.1), tokens, tokens, "sentence 1, layer 2"))
    assert is_legible(attention_images.draw_heads(np.full((3, 2, 3), 0.1), ["ein", "Haus"], tokens[:3], "sentence 1"))
    names = [f"decoder_block_{layer}/cross_attention/query" for layer in range(12)]
    assert is_legible(draw_norms({name: np.arange(1.0, 9) for name in names}, "Norms, epoch 2"))
    names = [f"{part}/encoder/{kernel}" for part in ("generator", "discriminator") for kernel in ("a", "b" * 30)]
    assert is_legible(draw_norms({name: np.arange(20.0, 24) for name in names}, "Norms, epoch 2"))
    labels, probabilities = np.arange(12).repeat(1200), np.eye(12)[np.arange(12).repeat(1200)]
    assert is_legible(draw_confusion_matrix(labels, probabilities, tokens[:12]))


def test_many_heads_are_drawn_in_rows_and_some_left_out():
    def figure(heads):
        return attention_images.draw_heads(np.ones((heads, 2, 3)), ["a", "b"], list("cde"), "maps")

    (width, height), (same, higher) = (figure(heads).get_size_inches() for heads in (4, 8))
    assert higher > height and same == width
    heads = [text for text in figure(64).axes[0].texts if "head" in text.get_text()]
    assert len(heads) == 16 and "the first 16 of 64 heads" in figure(64).get_suptitle()


def test_matplotlib_is_asked_for_at_once(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install -e .\.\[recipes\]"):
        AttentionImages(tmp_path, None)
    with pytest.raises(ImportError, match=r"pip install -e .\.\[recipes\]"):
        HeadStatistics(tmp_path)


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


def test_the_load_of_heads_is_a_picture_of_every_epoch(tmp_path):
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, MixtureOfHeadsAttention(4, 2)(inputs, inputs))
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(2, 3, 8))
    model.fit(x, x, epochs=2, verbose=0, callbacks=[HeadStatistics(tmp_path)])
    assert steps(tmp_path, "head_load") == steps(tmp_path, "head_norms") == [1, 2]


def test_statistics_of_heads_are_pictures_of_every_epoch(tmp_path):
    model, x = attentive_model(), np.ones((2, 3, 8))
    model.compile("sgd", "mse")
    callback = HeadStatistics(tmp_path, lambda model: attention_maps(model, x), tmp_path / "heads.png")
    model.fit(x, np.ones((2, 3, 1)), epochs=2, verbose=0, callbacks=[callback])
    shape = tf.io.decode_png((tmp_path / "heads.png").read_bytes()).shape
    assert min(shape[:2]) > 200 and [path.name for path in tmp_path.glob("*.png")] == ["heads.png"]
    assert steps(tmp_path, "head_norms") == steps(tmp_path, "head_statistics") == [1, 2]
    norms = head_norms(model)
    figure = draw_norms(norms, "Norms, epoch 2")
    axes, bar = figure.axes
    (picture,) = axes.get_images()
    for row, values in zip(picture.get_array(), norms.values(), strict=True):
        np.testing.assert_allclose(row[: len(values)], 100 * (values / values.mean() - 1), rtol=1e-4, atol=1e-4)
        assert np.ma.getmaskarray(np.ma.masked_invalid(row[len(values) :])).all()  # nothing where there is no head
    labels = [f"{name} {values.mean():.2f}" for name, values in norms.items()]
    assert [label.get_text() for label in axes.get_yticklabels()] == labels
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(head) for head in range(1, 17)]
    least, most = picture.get_clim()
    assert least == -most <= -10 and bar.get_xlabel() == "norm, % above mean"
    assert figure.get_suptitle() == "Norms, epoch 2"


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
    write_projector(tmp_path, {"queries": (np.eye(2), {"token": ["a", "b"], "head": [0, 1]})})
    assert (tmp_path / "queries.tsv").read_text() == "token\thead\na\t0\nb\t1\n"


def curve(folder, tag):
    """Steps and values. Files of one second are read by name, in which the process's 10th comes before its 9th."""
    found = sorted(events(folder).Tensors(tag), key=lambda event: event.wall_time)
    return [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in found]


def test_curves_of_training_and_validation_are_one_run(tmp_path):
    """With all else that a recipe shows: TensorBoard lists a folder for each folder with event files."""
    hparams = pytest.importorskip("tensorboard.plugins.hparams.api")
    images = AttentionImages(tmp_path, lambda model: {"map": (np.ones((1, 1, 1)), ["a"], ["b"])})
    shown = [hparams.KerasCallback(str(tmp_path), {"heads": 8}), TensorBoardCurves(tmp_path, ["constant"]), images]
    history = fit(EpochScore(lambda model: 1.5), EpochScore(lambda model: 1.0, "constant"), *shown, validate=True)
    files = sorted(tmp_path.rglob("events.out.tfevents.*"), key=lambda path: int(path.name.split(".")[-2]))
    assert {path.parent for path in files} == {tmp_path}
    # Without its fast data server, TensorBoard follows the newest file alone: it has all but the settings.
    newest = EventAccumulator(str(files[1]), size_guidance={"tensors": 0}).Reload().Tags()["tensors"]
    assert len(files) == 2 and {"epoch/loss", "maps/map"} <= set(newest)
    tags = [tag for tag in events(tmp_path).Tags()["tensors"] if not tag.startswith("_hparams_")]
    # As the first tab lists them: losses come before maps.
    assert sorted(tags) == ["epoch/learning_rate", "epoch/loss", "epoch/val_bleu", "epoch/val_loss", "maps/map"]
    assert "_hparams_/session_start_info" in events(tmp_path).Tags()["tensors"]
    for name in ("loss", "val_loss", "val_bleu"):
        found = curve(tmp_path, f"epoch/{name}")
        assert [step for step, _ in found] == [1, 2, 3]
        np.testing.assert_allclose([value for _, value in found], history[name], rtol=1e-6)
    assert curve(tmp_path, "epoch/learning_rate") == [(step, pytest.approx(0.01)) for step in (1, 2, 3)]


def test_chosen_steps_are_profiled(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: calls.append((counted.step, folder)))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: calls.append(counted.step))
    counted = Counted()
    fit(counted, TensorBoardCurves(tmp_path, profile_steps=(2, 3)))
    assert calls == [(2, str(tmp_path)), 3]
    fit(counted, TensorBoardCurves(tmp_path, profile_steps=(12, 99)))  # of twelve steps
    assert calls[2:] == [(12, str(tmp_path)), 12]
    fit(counted, TensorBoardCurves(tmp_path, profile_steps=(2, 3)), steps_per_execution=4)
    assert calls[4:] == [(1, str(tmp_path)), 1]


def test_a_profile_lies_in_the_folder(tmp_path):
    fit(TensorBoardCurves(tmp_path, profile_steps=(2, 2)), epochs=1)
    assert len([*tmp_path.glob("plugins/profile/*/*.xplane.pb")]) == 1


class Counted(keras.callbacks.Callback):
    """Counts the steps of training."""

    def on_train_begin(self, logs=None):
        self.step = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1


class Killed(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 6:  # of the second epoch's four, two
            raise KeyboardInterrupt


def test_curves_of_a_resumed_run_in_a_moved_folder_go_on(tmp_path):
    def callbacks(folder):
        return Resume(folder / "checkpoints", every=1), TensorBoardCurves(folder / "logs")

    with pytest.raises(KeyboardInterrupt):
        fit(*callbacks(tmp_path / "old"), Killed())
    shutil.move(tmp_path / "old", tmp_path / "new")
    history = fit(*callbacks(tmp_path / "new"))
    assert [step for step, _ in curve(tmp_path / "new" / "logs", "epoch/loss")] == [1, 2, 3]
    found = [value for _, value in curve(tmp_path / "new" / "logs", "epoch/loss")]
    np.testing.assert_allclose(found, history["loss"], rtol=1e-6)
