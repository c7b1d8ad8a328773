"""Models for phones: the LiteRT interpreter returns what the model does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.models import EncoderClassifier, ResNet
from tests.layers.harness import randomize
from tests.models import encoders

pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
EVOLVING = layers.EvolvingAttention(num_heads=2, key_dim=4, alpha=0.5, beta=1.0)


def exported(model, path, *signature):
    """A function from named inputs of an exported model to its outputs, by the operations of LiteRT alone."""
    path = str(path / "model.tflite")
    model.export(path, format="litert", input_signature=list(signature) or None, verbose=False)
    run = tf.lite.Interpreter(path).get_signature_runner()
    return lambda *only, **inputs: run(**inputs, **dict(zip(run.get_input_details(), only, strict=False)))


def ids_spec(name):
    return keras.InputSpec(shape=(None, None), dtype="int32", name=name)


def check_same(found, outputs):
    outputs = outputs if isinstance(outputs, dict) else {"output_0": outputs}
    assert found.keys() == outputs.keys()
    for name, output in outputs.items():
        np.testing.assert_allclose(found[name], output, rtol=0, atol=1e-5 * np.abs(output).max())


@pytest.mark.parametrize("attention", ["multi_head", "collaborative", "mixture_of_heads", encoders.EVOLVING])
def test_classifiers_of_any_length(attention, tmp_path):
    model = EncoderClassifier(encoders.make(attention=attention), 4)
    model(encoders.sentences())
    run = exported(randomize(model), tmp_path, ids_spec("token_ids"))
    for ids in (encoders.sentences(), encoders.sentences(batch=2, length=9)):
        check_same(run(token_ids=ids), model(ids))


def test_an_encoder_of_pairs(tmp_path):
    model = encoders.make(attention="talking_heads")
    signature = {name: ids_spec(name) for name in ("segment_ids", "token_ids")}
    run = exported(model, tmp_path, signature)
    pairs = encoders.pairs()
    check_same(run(**pairs), model(pairs))


def test_images(tmp_path):
    sizes = dict(filters=32, small_images=True, input_shape=(8, 10, 3), classes=5, min_key_dim=4, value_ratio=0.25)
    stages = dict(attention_stages=(0, 1), downsampled_stages=(0,))
    model = randomize(ResNet((1, 1), attention=EVOLVING, classifier_activation=None, **sizes, **stages))
    images = np.random.default_rng(0).normal(size=(2, 8, 10, 3)).astype("float32")
    check_same(exported(model, tmp_path)(images), model(images, training=False))
