import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from keras_headattn.serving import export_classifier, export_regressor
from keras_headattn.text import WordTokenizer

CLASSES = ["gut", "schön", "übel"]
TEXTS = ["two Cats", "a dog and two cats", ""]
FRESH = """
import json, sys
sys.modules["keras_headattn"] = sys.modules["tensorflow_text"] = None
import tensorflow as tf
sys.modules["keras"] = None
path, texts = json.load(sys.stdin)
classify = tf.saved_model.load(path).signatures["serving_default"]
found = classify(**{name: tf.constant(values) for name, values in texts.items()})
names = [[name.decode() for name in row] for row in found["classes"].numpy()]
print(json.dumps([names, found["scores"].numpy().tolist()]))
"""


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(["two", "cats", "dog"])


def in_a_fresh_process(path, texts):
    """With TensorFlow, and neither Keras nor this library nor tensorflow-text."""
    process = subprocess.run(
        [sys.executable, "-c", FRESH], input=json.dumps([str(path), texts]), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def check(found, logits):
    names, scores = found
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    order = np.argsort(-probabilities, axis=-1)
    assert names == [[CLASSES[label] for label in row] for row in order]
    np.testing.assert_allclose(scores, np.take_along_axis(probabilities, order, -1), rtol=1e-4)


def test_pairs_and_long_texts(tokenizer, tmp_path):
    """All in one model: recurrent layers, two texts, texts that are cut."""
    encoder, pooling = BiLSTMEncoder(tokenizer.vocabulary_size, 4, 3), SelfAttentivePooling(2, 3)
    model = SentencePairClassifier(encoder, 3, pooling, mlp_dim=5, factor_dim=3)
    model.build()
    lstm = encoder.bilstms[0].forward_layer
    lstm.use_cudnn = "auto"
    path = export_classifier(model, tokenizer, CLASSES, tmp_path, max_length=3, pairs=True)
    assert path == tmp_path / "1" and lstm.use_cudnn == "auto"
    first, second = tokenizer(TEXTS)[:, :3], tokenizer(TEXTS[::-1])[:, :3]
    found = in_a_fresh_process(path, {"text": TEXTS, "second_text": TEXTS[::-1]})
    check(found, model((first, second)))
    none = tf.constant([], tf.string)
    found = tf.saved_model.load(path).signatures["serving_default"](text=none, second_text=none)
    assert found["classes"].shape == found["scores"].shape == (0, 3)


def test_texts(tokenizer, tmp_path):
    embedding = keras.layers.Embedding(5, 3, mask_zero=True)
    model = keras.Sequential([embedding, keras.layers.GlobalAveragePooling1D()])
    model.build((None, None))
    export_classifier(model, tokenizer, CLASSES, tmp_path, top=2)
    classify = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    found = classify(text=tf.constant(TEXTS))
    expected = tf.math.top_k(tf.nn.softmax(model(tokenizer(TEXTS))), 2)
    np.testing.assert_allclose(found["scores"], expected.values, rtol=1e-5)
    assert classify(text=tf.constant([], tf.string))["scores"].shape == (0, 2)
    with pytest.raises(ValueError, match="classes of the model, 3. Received: 2 names"):
        export_classifier(model, tokenizer, CLASSES[:2], tmp_path)


class Length(keras.layers.Layer):
    """The number of columns of its input."""

    def call(self, ids):
        return tf.fill([tf.shape(ids)[0], 1], tf.cast(tf.shape(ids)[1], tf.float32))


def test_padding(tokenizer, tmp_path):
    """Texts come to the model in few lengths, and padding does not change what it makes of them."""
    sizes, columns = (1, 9, 17, 33, 50), [16, 16, 32, 40, 40]
    texts = [" ".join(("two cats dog it " * size).split()[:size]) for size in sizes]
    path = export_regressor(keras.Sequential([Length()]), tokenizer, tmp_path / "length", max_length=40)
    measure = tf.saved_model.load(path).signatures["serving_default"]
    assert [measure(text=tf.constant([text]))["values"].numpy()[0] for text in texts] == columns

    encoder = TransformerEncoder(tokenizer.vocabulary_size, 8, 16, num_layers=2, attention="evolving", num_heads=2)
    model = SentenceClassifier(encoder, 3, SelfAttentivePooling(5, 4), mlp_dim=6)
    path = export_classifier(model, tokenizer, CLASSES, tmp_path / "classes", max_length=40)
    classify = tf.saved_model.load(path).signatures["serving_default"]
    for text in texts:
        found = classify(text=tf.constant([text]))
        names = [name.decode() for name in found["classes"].numpy()[0]]
        check(([names], found["scores"]), model(tokenizer([text])[:, :40]))
