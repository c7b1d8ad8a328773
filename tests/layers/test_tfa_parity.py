"""Live parity with tensorflow-addons, in a process of its own: it runs on Keras 2 alone."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import MultiHeadAttention
from tests.layers.harness import array, check_close, output_bias, random_mask

if importlib.util.find_spec("tensorflow_addons") is None:
    pytest.skip('not installed: pip install -e ".[addons]"', allow_module_level=True)

# tensorflow-addons looks for `keras`; it is given tf_keras under that name.
SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import tf_keras
for name in [n for n in sys.modules if n == "tf_keras" or n.startswith("tf_keras.")]:
    sys.modules["keras" + name[len("tf_keras"):]] = sys.modules[name]
import tensorflow as tf
from tensorflow_addons.layers import MultiHeadAttention

with np.load(sys.argv[1]) as file:
    given = dict(file)
query, value, key = (given[n] for n in ("query", "value", "key"))
layer = MultiHeadAttention(head_size=4, num_heads=3, output_size=10, return_attn_coef=True)
layer([query, key, value])
weights = {w.name.split("/")[-1].split(":")[0]: w for w in layer.weights}
for name, weight in weights.items():
    weight.assign(given[name])
results = {}
for name in ("nomask", "mask", "empty", "head"):
    mask = None if name == "nomask" else given[name].astype("float32")
    with tf.GradientTape() as tape:
        output, scores = layer([query, key, value], mask=mask)
        loss = tf.reduce_sum(output * given["direction"])
    results[name + ".out"], results[name + ".scores"] = output.numpy(), scores.numpy()
    for weight, gradient in zip(weights, tape.gradient(loss, list(weights.values()))):
        results[name + "." + weight] = gradient.numpy()
np.savez(sys.argv[2], **results)
"""
NAMES = {"query": "query_kernel", "key": "key_kernel", "value": "value_kernel"}


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    shapes = {
        "query": (2, 5, 11), "key": (2, 7, 13), "value": (2, 7, 9), "direction": (2, 5, 10),
        "query_kernel": (3, 11, 4), "key_kernel": (3, 13, 4), "value_kernel": (3, 9, 4),
        "projection_kernel": (3, 4, 10), "projection_bias": (10,),
    }  # fmt: skip
    found = {name: rng.normal(scale=0.7, size=shape).astype("float32") for name, shape in shapes.items()}
    found["mask"], found["head"] = random_mask((2, 5, 7)), random_mask((2, 3, 5, 7))
    found["empty"] = found["mask"].copy()
    found["empty"][1, 3] = False
    return found


@pytest.fixture(scope="module")
def theirs(given, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfa")
    np.savez(folder / "in.npz", **given)
    command = [sys.executable, "-c", SCRIPT, str(folder / "in.npz"), str(folder / "out.npz")]
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(folder / "out.npz") as out:
        return dict(out)


@pytest.fixture
def ours(given):
    """Their weights in our layer: (heads, in, size) becomes (in, heads, size); no input biases."""
    layer = MultiHeadAttention(3, 4, output_shape=10)
    layer.build(*(given[n].shape for n in ("query", "value", "key")))
    weights = {v.path.split("/", 1)[1]: v for v in layer.weights}
    for name, theirs in NAMES.items():
        weights[f"{name}/kernel"].assign(given[theirs].transpose(1, 0, 2))
    weights["attention_output/kernel"].assign(given["projection_kernel"])
    weights["attention_output/bias"].assign(given["projection_bias"])
    return layer


@pytest.mark.parametrize("name", ["nomask", "mask", "head"])
def test_outputs_scores_and_gradients(given, theirs, ours, name):
    inputs = [given[n] for n in ("query", "value", "key")]
    mask = None if name == "nomask" else given[name]
    with tf.GradientTape() as tape:
        output = ours(*inputs, attention_mask=mask)
        loss = tf.reduce_sum(output * given["direction"])
    check_close(output, theirs[f"{name}.out"], 1e-5)
    _, scores = ours(*inputs, attention_mask=mask, return_attention_scores=True)
    check_close(scores, theirs[f"{name}.scores"], 1e-5)
    variables = {v.path.split("/", 1)[1]: v.value for v in ours.trainable_variables}
    gradients = tape.gradient(loss, variables)
    for ours_name, theirs_name in NAMES.items():
        gradient = array(gradients[f"{ours_name}/kernel"]).transpose(1, 0, 2)
        check_close(gradient, theirs[f"{name}.{theirs_name}"], 1e-5)
    check_close(gradients["attention_output/kernel"], theirs[f"{name}.projection_kernel"], 1e-5)


def test_a_query_that_may_attend_to_nothing(given, theirs, ours):
    """Theirs attends evenly to what is forbidden; ours gives the bias. Elsewhere they agree."""
    inputs = [given[n] for n in ("query", "value", "key")]
    output, scores = map(array, ours(*inputs, attention_mask=given["empty"], return_attention_scores=True))
    expected, expected_scores = theirs["empty.out"].copy(), theirs["empty.scores"].copy()
    assert expected_scores[1, :, 3].sum() > 1
    expected[1, 3], expected_scores[1, :, 3] = output_bias(ours), 0
    check_close(output, expected, 1e-5)
    check_close(scores, expected_scores, 1e-5)
