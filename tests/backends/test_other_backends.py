"""The same weights and inputs give the same outputs and gradients on Keras's other backends.

One process a backend runs all rooms: to start it, and to compile on JAX each operation, takes longer than the tests.
"""

import json
import math

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.models import (
    T5,
    BiLSTMEncoder,
    CausalLM,
    DCTransformer,
    EncoderClassifier,
    ResNet,
    SentenceClassifier,
    SentencePairClassifier,
)
from keras_headattn.regularizers import Frobenius
from tests.backends import load_from, run_on, worker
from tests.full import FULL
from tests.layers import fused_worker
from tests.layers.backend_worker import EVERY, EXPORTED
from tests.layers.harness import build, cross_inputs, each, output_bias, randomize, self_input
from tests.models import electra, encoders, graphs, onnx_worker
from tests.models.small import CASES, make
from tests.positions.cases import ALL

# Of the Transformers the first moves rows of the cache, the second has positions in it.
TRANSFORMERS = ("evolving_decoder", "relative") if FULL else ()
WRITERS = ("t5", "graph_writer") if FULL else ()
CLASSIFIERS = ("resnet", "single", "pair", "encoder", "dc_transformer") if FULL else ("resnet", "encoder")


def save_weights_of_layers(folder):
    """`case/kind/00`, `case/kind/01`, ... for cross and self-attention."""
    found = {}
    for case in EVERY:
        for kind, inputs in (("cross", cross_inputs()), ("self", (self_input(),) * 3)):
            for i, weight in enumerate(build(case.make(), *inputs).get_weights()):
                found[f"{case.name}/{kind}/{i:02}"] = weight
    np.savez(folder / "weights.npz", **found)


def classifiers():
    """Name to a model and a list of its inputs.

    The pair has no regularizer: on JAX Keras forgets the loss of a layer that is called again, as the pooling is for
    the second sentence.
    """
    ids = np.random.default_rng(0).integers(1, 11, (3, 6)).astype("int32")
    ids[1, -2:] = 0
    for name, inputs in (("single", [ids]), ("pair", [ids, ids[::-1, 1:]])):
        pooling = layers.SelfAttentivePooling(4, 6, head_regularizer=Frobenius() if name == "single" else None)
        cls, own = (SentenceClassifier, {}) if name == "single" else (SentencePairClassifier, {"factor_dim": 8})
        model = cls(BiLSTMEncoder(11, 12, 5, dropout=0.0), 3, pooling, mlp_dim=7, dropout=0.0, **own)
        model.build()
        yield name, randomize(model), inputs
    evolving = layers.EvolvingAttention(3, 4, alpha=0.4, beta=0.5)
    encoder = encoders.make("roberta", attention=evolving, dropout=0.0)
    model = EncoderClassifier(encoder, 3, "roberta", dropout=0.0)
    model.build()
    yield "encoder", randomize(model), [encoders.sentences(pad_id=1)]
    resnet = ResNet(
        (1,),
        attention=layers.EvolvingAttention(num_heads=2, key_dim=4, alpha=0.5, beta=1.0),
        filters=16,
        small_images=True,
        input_shape=(8, 10, 3),
        classes=5,
        min_key_dim=4,
        attention_stages=(0,),
        downsampled_stages=(0,),
        weight_regularizer="l2",
        classifier_activation=None,
    )
    images = np.random.default_rng(0).normal(size=(2, 8, 10, 3)).astype("float32")
    yield "resnet", randomize(resnet), [images]
    dilated = DCTransformer(3, 9, 16, 12, 2, num_heads=2, dropout=0.0)
    dilated.build((None, None, 5))
    yield "dc_transformer", randomize(dilated), [np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")]


def save_models(folder):
    """Without randomness in training."""
    for case in CASES:
        if case.name in TRANSFORMERS:
            make(case, dropout=0.0).save(folder / f"{case.name}.keras")
    if "t5" in WRITERS:
        sizes = dict(num_heads=3, key_dim=5, activation="gelu_tanh", gated=True, dropout=0.0, loss_chunk_size=5)
        t5 = T5(13, 12, 10, 1, **sizes)
        t5.build()
        randomize(t5).save(folder / "t5.keras")
    options = dict(positions="learned", max_length=12, recompute=True, attention_arguments={"value_residual": True})
    language_model = CausalLM(13, 2, 12, 10, num_heads=3, **options)
    language_model.build()
    randomize(language_model).save(folder / "causal_lm.keras")
    if FULL:
        pretraining = electra.make(num_layers=1, attention="talking_heads", seed=1, **electra.CALM)
        pretraining.build()
        randomize(pretraining).save(folder / "electra.keras")
        np.savez(folder / "electra.npz", **electra.given_masks(pretraining))
    if "graph_writer" in WRITERS:
        graphs.make(dropout=0.0).save(folder / "graph_writer.keras")
    for name, model, inputs in classifiers():
        if name not in CLASSIFIERS:
            continue
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", *inputs, labels=np.array([0, 2, 1])[: len(inputs[0])])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of inputs for each room."""
    folder = tmp_path_factory.mktemp("inputs")
    for room in worker.ROOMS:
        (folder / room).mkdir()
    save_weights_of_layers(folder / "layers")
    save_models(folder / "models")
    return folder


@pytest.fixture(scope="module")
def ours(folder):
    return worker.everything(folder)


@pytest.fixture(scope="module")
def theirs(other_backend, folder, tmp_path_factory):
    path = tmp_path_factory.mktemp(other_backend) / "out.npz"
    run_on(other_backend, "-m", "tests.backends.worker", folder, path)
    return load_from(other_backend, path)


def check_no_errors(name, outputs):
    """Neither of the room nor of this part of it."""
    room = name.split("/")[0]
    errors = [n for n in outputs if n == f"{room}/error" or n.startswith(f"{name}/") and n.endswith("/error")]
    assert not [str(outputs[n]) for n in errors]


def check_same(name, ours, theirs, tolerance=1e-5):
    """All results of a part of a room; returns how many there are."""
    check_no_errors(name, ours)
    check_no_errors(name, theirs)
    names = {n for n in ours if n.startswith(f"{name}/")}
    assert names and names == {n for n in theirs if n.startswith(f"{name}/")}
    for n in names:
        atol = (tolerance(n) if callable(tolerance) else tolerance) * max(1, np.abs(ours[n]).max())
        np.testing.assert_allclose(theirs[n], ours[n], rtol=0, atol=atol, err_msg=n)
    return len(names)


def check_exported(name, backend, theirs):
    """All tensors of an ONNX file, of inputs of all sizes; returns how many there are."""
    if backend != "torch":
        pytest.skip("ONNX is PyTorch's")
    check_no_errors(name, theirs)
    names = [n for n in theirs if n.startswith(f"{name}/eager")]
    for n in names:
        atol = 1e-5 * max(1, np.abs(theirs[n]).max())
        np.testing.assert_allclose(theirs[n.replace("/eager", "/exported")], theirs[n], rtol=0, atol=atol, err_msg=n)
    return len(names)


# -------------------------------------------------------------------------------------------------- imports


def test_no_tensorflow_without_its_backend(theirs):
    """Imports that no parser sees, such as those by name, would show here."""
    assert not theirs["tensorflow_is_imported"]


def test_rooms_that_need_tensorflow_say_how_to_install_it(theirs):
    errors = {name: str(error) for name, error in theirs.items() if name.startswith("without_tensorflow/")}
    assert {*errors} == {f"without_tensorflow/{room}" for room in ("data", "text", "training", "serving")}
    assert {*errors.values()} == {"Install tensorflow: pip install tensorflow"}


# --------------------------------------------------------------------------------------------------- layers

each_layer = each(EVERY)


def test_rows_written(ours, theirs):
    check_same("layers/write_rows", ours, theirs)


def test_gradients_are_there(ours, theirs):
    """They are compared with the outputs of each layer."""
    for outputs in (ours, theirs):
        check_no_errors("layers/gradients", outputs)
        assert len([name for name in outputs if "/gradient/" in name]) > 8 * len(EVERY)


@each_layer
def test_layers(case, ours, theirs):
    check_same(f"layers/{case.name}", ours, theirs, lambda name: 2e-2 if name.endswith("half") else 1e-5)


@each_layer
def test_contract_of_layers(case, theirs):
    name = f"layers/{case.name}"
    check_no_errors(name, theirs)
    bias = output_bias(build(case.make(), *cross_inputs()))
    assert theirs[f"{name}/refused"]
    for result, tolerance in (("masked", 0), ("biased", 0), ("with_scores", 0), ("half", 1e-3)):
        np.testing.assert_allclose(theirs[f"{name}/{result}"][1, 2], bias, rtol=tolerance, err_msg=result)
    if case.causal:
        np.testing.assert_allclose(theirs[f"{name}/steps"], theirs[f"{name}/at_once"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*(case.name for case in EXPORTED), "convolution"])
def test_onnx_of_any_length(name, other_backend, theirs):
    """Keras traces with lengths of 1, so a branch on a size would become the graph."""
    assert check_exported(f"layers/onnx/{name}", other_backend, theirs) == 2


# -------------------------------------------------------------------------------------------- fused attention

each_recorded = each(fused_worker.RECORDED)
LENGTH, WINDOW = fused_worker.LENGTH, fused_worker.WINDOW
MASKED = ("shared_mask", "mask_by_item", "segments")  # situations with a mask of queries and keys
PAIRS = {"interleaved": 4, "paired_heads": 2}  # of queries and keys, for a token and a token


def kernel_calls(case, theirs, *names):
    """Returns situation and call, for each call of the kernel in situations with these words in their names."""
    prefix = f"layers/kernels/calls/{case.name}"
    check_no_errors(prefix, theirs)
    results = {
        name.removeprefix(f"{prefix}/"): json.loads(str(theirs[name])) for name in theirs if prefix + "/" in name
    }
    calls = {name: x["calls"] for name, x in results.items() if any(word in name.split("_") for word in names)}
    if "sinks" in case.name:  # two products in a window
        calls = {name: x for name, x in calls.items() if "window" not in name}
    assert calls and all(calls.values()), f"no kernel: {calls}"
    return [(name, call) for name, found in calls.items() for call in found]


def maps_of(case, theirs):
    prefix = f"layers/kernels/calls/{case.name}/"
    return {name.removeprefix(prefix): json.loads(str(x))["maps"] for name, x in theirs.items() if prefix in name}


def needs_map(case, name, backend):
    """True for calls whose kernel needs a mask of queries and keys."""
    of_pseudo_tokens = case.name in PAIRS and ("causal" in name or "window" in name)
    of_window = "window" in name and (backend == "torch" or "sinks" in case.name)
    return name in MASKED or of_pseudo_tokens or of_window


@each_recorded
def test_no_map_beside_the_kernel(case, other_backend, theirs):
    """Neither as an operand nor on the way to it; masks that need one are not repeated for each head."""
    check_no_errors(f"layers/kernels/calls/{case.name}", theirs)
    for name, maps in maps_of(case, theirs).items():
        if not needs_map(case, name, other_backend):
            assert not maps, name
        elif "sinks" not in case.name:
            assert max(map(math.prod, maps), default=0) <= 2 * PAIRS.get(case.name, 1) * LENGTH**2, name


@each_recorded
def test_causal_calls(case, other_backend, theirs):
    """Also with padding, and in 16 bits."""
    for name, call in kernel_calls(case, theirs, "causal"):
        if not needs_map(case, name, other_backend):
            assert call["is_causal"] and call["mask"] is None and call["bias"] is None, name


@each_recorded
def test_windows(case, other_backend, theirs):
    if "sinks" in case.name or case.name in PAIRS:
        pytest.skip("no window of the kernel's own")
    for name, call in kernel_calls(case, theirs, "window"):
        if other_backend == "jax":
            assert call["window"] == [WINDOW - 1, 0 if "causal" in name else WINDOW - 1], name
            assert call["is_causal"] == ("causal" in name) and call["mask"] is None, name
        else:
            assert math.prod(call["mask"][-2:]) < LENGTH**2, name  # in blocks of queries


@each_recorded
def test_masks_of_keys_are_features(case, other_backend, theirs):
    for name, call in kernel_calls(case, theirs, "key", "value", "lengths"):
        if needs_map(case, name, other_backend):
            continue
        operands = [shape for shape in (call["mask"], call["bias"]) if shape]
        assert all(math.prod(shape[-2:]) < LENGTH**2 for shape in operands), name
        assert not operands or "mask" not in name, name
        assert "key_mask" not in name or call["widths"][0] % 8 == 0, name
        if other_backend == "jax" and "lengths" in name and case.name not in PAIRS and "sinks" not in case.name:
            assert call["lengths"], name


@each_recorded
def test_operands_of_the_kernel(case, other_backend, theirs):
    for name, call in kernel_calls(case, theirs, "causal", "plain", "lengths", "query"):
        assert len({*call["widths"]}) == 1, name
        assert "query_mask" not in name or call["mask"] is None, name
    groups = {"grouped_query": 2, "equal_grouped_query": 2, "sinks_grouped": 2, "multi_query": 1, "equal_pairwise": 3}
    if case.name in groups:
        for name, call in kernel_calls(case, theirs, "plain", "causal"):
            if other_backend == "jax" or name.startswith("bfloat16") and call["mask"] is None:
                assert call["groups"] == groups[case.name] < call["heads"], name
                assert call.get("enable_gqa", True), name


@each([case for case in fused_worker.RECORDED if case.name in fused_worker.PATHS])
def test_masks_are_not_repeated(case, theirs):
    for name, call in kernel_calls(case, theirs, "shared", "item", "segments"):
        assert call["mask"] is None or call["mask"][1] == 1, name
        assert name != "shared_mask" or call["mask"] is None or call["mask"][0] == 1, name


@each(fused_worker.UNFUSED)
def test_layers_without_a_kernel(case, theirs):
    check_no_errors(f"layers/kernels/plain_calls/{case.name}", theirs)
    assert not json.loads(str(theirs[f"layers/kernels/plain_calls/{case.name}/causal"]))["calls"]


def test_calls_that_read_weights_have_no_kernel(theirs):
    check_no_errors("layers/kernels/weights", theirs)
    counts = {name: theirs[f"layers/kernels/weights/{name}"] for name in ("scores", "training", "inference")}
    assert counts == {"scores": 0, "training": 0, "inference": 1}


@each([*fused_worker.FUSED, *fused_worker.UNFUSED])
def test_distance_from_the_plain_path(case, other_backend, theirs):
    """Of outputs and gradients in float32."""
    if other_backend == "jax" and case.name not in fused_worker.PATHS:
        pytest.skip("takes long to compile")
    for part in ("distances", "eager_distances"):
        prefix = f"layers/kernels/{part}/{case.name}"
        check_no_errors(prefix, theirs)
        found = {name: x for name, x in theirs.items() if name.startswith(f"{prefix}/")}
        assert found or part == "eager_distances"
        wrong = {name.removeprefix(f"{prefix}/"): x for name, x in found.items() if not (x < (1e-6, 5e-6)).all()}
        assert not wrong


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", fused_worker.HALF)
def test_fused_in_half_precision(name, dtype, theirs):
    prefix = f"layers/kernels/half/{name}/{dtype}"
    check_no_errors(prefix, theirs)
    assert theirs[f"{prefix}/distance"] < 2e-2
    assert theirs[f"{prefix}/zeros"]


@pytest.mark.parametrize("case", fused_worker.ACCEPTED, ids=lambda case: case.name)
def test_cudnn_takes_what_it_gets(case, other_backend, theirs):
    """Forward and backward, with odd lengths too."""
    if other_backend != "jax":
        pytest.skip("cuDNN's kernels of JAX")
    check_no_errors(f"layers/kernels/cudnn/{case.name}", theirs)
    counts = {name: x.tolist() for name, x in theirs.items() if name.startswith(f"layers/kernels/cudnn/{case.name}/")}
    assert len(counts) == 7 and set(map(tuple, counts.values())) == {(1, 1)}, counts


def test_attend(other_backend, theirs):
    """`ops.attend` with random arguments."""
    for way in ("eager", "jit", "even") if other_backend == "jax" else ("eager",):
        check_no_errors(f"layers/kernels/attend/{way}", theirs)
        assert theirs[f"layers/kernels/attend/{way}/distances"].max() < 2e-6


# ---------------------------------------------------------------------------- positions, losses, optimizers


@pytest.mark.parametrize("name", ALL)
def test_positions(name, ours, theirs):
    assert check_same(f"positions/{name}", ours, theirs, lambda key: 1e-2 if "/half" in key else 1e-5) >= 2


def test_gradient_of_the_loss(ours, theirs):
    check_same("losses", ours, theirs, 1e-6)


def test_repulsive_attention(ours, theirs):
    np.testing.assert_allclose(theirs["optimizers/noise"], ours["optimizers/noise"], rtol=0.2)
    for part in ("svgd", "scaled"):
        check_same(f"optimizers/{part}", ours, theirs)


# --------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("model", (*TRANSFORMERS, *WRITERS, "causal_lm"))
def test_texts(model, ours, theirs):
    """A Transformer, a writer or a language model saved here writes and trains the same."""

    def tolerance(name):
        return 0 if "/tokens" in name else 1e-4 if name.endswith("trained") else 1e-5

    count = {"t5": 11, "graph_writer": 7, "causal_lm": 7}.get(model, 5)
    assert check_same(f"models/{model}", ours, theirs, tolerance) == count


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_classifiers(model, ours, theirs):
    """A classifier saved here predicts the same, and a step of training has the same loss."""
    tolerance = 1e-3 if model == "resnet" else 1e-4
    count = check_same(f"models/{model}", ours, theirs, lambda name: tolerance if name.endswith("loss") else 1e-5)
    assert count == 2


@pytest.mark.skipif(not FULL, reason="JAX compiles it for a minute: make test-all, and make test-torch on PyTorch")
def test_pretraining(ours, theirs):
    """Losses and measures with given masks, and the weights after a step; what is drawn is never special."""
    assert theirs["models/electra/drawn_special"] == 0
    assert check_same("models/electra", ours, theirs, lambda name: 1e-4 if "logs" in name else 2e-5) > 50


@pytest.mark.parametrize("name", onnx_worker.WHOLE)
def test_onnx_of_models(name, other_backend, theirs):
    """With free sizes, and padding."""
    assert check_exported(f"models/onnx/{name}", other_backend, theirs) >= 2


@pytest.mark.parametrize("make, reason", onnx_worker.NOT_EXPORTED.items())
def test_what_onnx_cannot_have(make, reason, other_backend, theirs):
    """If this fails, docs/take_elsewhere.md and its test may promise more."""
    with pytest.raises(AssertionError, match=reason):
        check_exported(f"models/onnx/{make.__name__}", other_backend, theirs)
