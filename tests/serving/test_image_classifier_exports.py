import base64
import functools
import json
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import central_crop
from keras_headattn.serving import export_image_classifier, export_pixel_classifier

CLASSES = ["Affe", "Bär", "Chamäleon"]
PREPROCESS = functools.partial(central_crop, size=8, resized=10)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model and the paths of its SavedModels, of files and of pixels."""
    folder = tmp_path_factory.mktemp("serving")
    keras.utils.set_random_seed(1)
    images = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu")(keras.layers.Rescaling(1 / 255)(images))
    x = keras.layers.BatchNormalization()(x)
    logits = keras.layers.Dense(3, kernel_initializer="random_normal")(keras.layers.Flatten()(x))
    model = keras.Model(images, logits)
    return (
        model,
        export_image_classifier(model, PREPROCESS, CLASSES, folder / "files", top=2),
        export_pixel_classifier(model, CLASSES, folder / "tensors"),
    )


def files(number=5):
    """JPEG and PNG files of different sizes."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (9 + i, 16 - i, 3), "uint8") for i in range(number)]
    return [(tf.io.encode_png if i % 2 else tf.io.encode_jpeg)(image).numpy() for i, image in enumerate(images)]


def expected(model, pixels):
    """Names and probabilities of all classes, the likeliest first."""
    logits = model(tf.cast(pixels, tf.float32)).numpy().astype("float64")
    scores = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    order = np.argsort(-scores, axis=-1)
    return [[CLASSES[label] for label in row] for row in order], np.take_along_axis(scores, order, axis=-1)


def test_files_in_a_fresh_process(exported):
    """In a process that has TensorFlow, and neither Keras nor this library."""
    model, path, _ = exported
    script = """
        import sys, json, base64
        sys.modules["keras_headattn"] = sys.modules["recipes"] = None
        import tensorflow as tf
        sys.modules["keras"] = None
        path, files = json.load(sys.stdin)
        classify = tf.saved_model.load(path).signatures["serving_default"]
        found = classify(images=tf.constant([base64.b64decode(file) for file in files]))
        names = [[name.decode() for name in row] for row in found["classes"].numpy()]
        print(json.dumps([names, found["scores"].numpy().tolist()]))
    """
    process = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(script)],
        input=json.dumps([str(path), [base64.b64encode(file).decode() for file in files()]]),
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert process.returncode == 0, process.stderr
    names, scores = json.loads(process.stdout)
    all_names, all_scores = expected(model, tf.stack([PREPROCESS(file) for file in files()]))
    assert names == [row[:2] for row in all_names] and len({row[0] for row in names}) > 1
    np.testing.assert_allclose(scores, all_scores[:, :2], rtol=1e-4)


@pytest.mark.parametrize("name, dtype", [("serving_default", tf.float32), ("uint8", tf.uint8)])
def test_pixels(exported, name, dtype):
    model, _, path = exported
    pixels = np.random.default_rng(1).integers(0, 256, (4, 8, 8, 3), "uint8")
    found = tf.saved_model.load(path).signatures[name](images=tf.constant(pixels, dtype))
    names, scores = expected(model, pixels)
    assert [[n.decode() for n in row] for row in found["classes"].numpy()] == names
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-4)


def test_signatures_have_the_documented_shapes(exported):
    _, path, tensors_path = exported
    signatures = {("files", name): s for name, s in tf.saved_model.load(path).signatures.items()}
    signatures |= {("tensors", name): s for name, s in tf.saved_model.load(tensors_path).signatures.items()}
    inputs = {}
    for key, signature in signatures.items():
        (spec,) = signature.structured_input_signature[1].values()
        inputs[key] = (spec.name, spec.dtype, spec.shape.as_list())
        outputs = {name: (s.dtype, s.shape.as_list()) for name, s in signature.structured_outputs.items()}
        top = 2 if key[0] == "files" else 3
        valid = {"valid": (tf.bool, [None])} if key[0] == "files" else {}
        assert outputs == {"classes": (tf.string, [None, top]), "scores": (tf.float32, [None, top])} | valid
    assert inputs == {
        ("files", "serving_default"): ("images", tf.string, [None]),
        ("tensors", "serving_default"): ("images", tf.float32, [None, 8, 8, 3]),
        ("tensors", "uint8"): ("images", tf.uint8, [None, 8, 8, 3]),
    }


def test_damaged_files_do_not_fail_their_batch(exported):
    classify = tf.saved_model.load(exported[1]).signatures["serving_default"]
    good = files()
    whole = {name: value.numpy() for name, value in classify(images=tf.constant(good)).items()}
    assert whole["valid"].all()
    mixed = classify(images=tf.constant([b"x", good[0], good[1][:40], good[2], b"", good[0][:40]]))
    mixed = {name: value.numpy() for name, value in mixed.items()}
    assert mixed["valid"].tolist() == [False, True, False, True, False, False]
    for name in ("classes", "scores"):
        np.testing.assert_array_equal(mixed[name][[1, 3]], whole[name][[0, 2]])
        assert not mixed[name][~mixed["valid"]].any()  # empty strings, zeros
    bad = classify(images=tf.constant([b"x", good[1][:40]]))
    assert not bad["valid"].numpy().any() and bad["scores"].shape == (2, 2)


def test_empty_batches(exported):
    _, path, tensors_path = exported
    found = tf.saved_model.load(path).signatures["serving_default"](images=tf.constant([], tf.string))
    assert found["classes"].shape == found["scores"].shape == (0, 2) and found["valid"].shape == (0,)
    for name, dtype in (("serving_default", tf.float32), ("uint8", tf.uint8)):
        found = tf.saved_model.load(tensors_path).signatures[name](images=tf.zeros((0, 8, 8, 3), dtype))
        assert found["classes"].shape == found["scores"].shape == (0, 3)


def test_images_of_any_size(tmp_path):
    images = keras.Input((None, None, 3))
    model = keras.Model(images, keras.layers.GlobalAveragePooling2D()(images))
    path = export_image_classifier(model, PREPROCESS, CLASSES, tmp_path / "sized")
    found = tf.saved_model.load(path).signatures["serving_default"](images=tf.constant([files()[0], b"x"]))
    assert found["valid"].numpy().tolist() == [True, False]
    with pytest.raises(ValueError, match=r"one size.*Received: pixels of shape \(None, None, 3\)"):
        export_image_classifier(model, lambda data: tf.io.decode_png(data, 3), CLASSES, tmp_path / "unsized")
    assert not (tmp_path / "unsized").exists()


def test_names_of_other_classes(exported, tmp_path):
    for export in (
        functools.partial(export_image_classifier, exported[0], PREPROCESS),
        functools.partial(export_pixel_classifier, exported[0]),
    ):
        with pytest.raises(ValueError, match="the model, 3. Received: 2 names"):
            export(["a", "b"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
