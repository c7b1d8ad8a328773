"""Collaborative heads of trained multi-head attention: layers, models, the decomposition, golden vectors."""

import keras
import numpy as np
import pytest

from keras_headattn.interop import to_collaborative
from keras_headattn.interop._collaborative import decompose
from keras_headattn.layers import CollaborativeAttention, MultiHeadAttention
from keras_headattn.models import Bert, Transformer
from keras_headattn.positions import ALiBiPositions, BucketPositions
from tests.layers.harness import array, build, check_close, cross_inputs, randomize
from tests.models.small import sentences

IDS = np.array([[3, 1, 4, 1, 5, 0, 0], [9, 2, 6, 5, 3, 5, 8]], "int32")


def bert(**arguments):
    model = Bert(11, 16, 32, num_layers=2, num_heads=4, name="bert", **arguments)
    model(IDS)
    return randomize(model)


def test_bert():
    """The same at full rank, and with a smaller error the more features heads share."""
    model = bert()
    expected, before = model(IDS), [array(weight) for weight in model.weights]
    same, errors = to_collaborative(model)
    assert errors == {"bert/block_0/attention": 0.0, "bert/block_1/attention": 0.0}
    for name, output in same(IDS).items():
        check_close(output, expected[name], 1e-5)
    assert type(same) is Bert and same.count_params() == model.count_params() + 2 * (16 * 4 + 4 * 16 - 2 * 16)
    found, apart = [], []
    for rank in (4, 8, 12, 15):
        smaller, errors = to_collaborative(model, rank)
        assert smaller.blocks[0].attention.shared_dim == rank
        found.append(list(errors.values()))
        apart.append(np.abs(array(smaller(IDS)["sequence_output"]) - array(expected["sequence_output"])).mean())
    assert (np.diff(found, axis=0) < 0).all() and apart[-1] < apart[0]
    for weight, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(array(weight), old)


@pytest.mark.parametrize("positions", [None, BucketPositions(8, 16)], ids=["plain", "buckets"])
def test_transformer(positions, tmp_path):
    """All three attentions, tables of positions, decoding, and the file."""
    attention = MultiHeadAttention(2, 6, dropout=0.1)
    model = Transformer(
        11, 13, 1, hidden_dim=12, intermediate_dim=10, attention=attention, relative_positions=positions
    )
    batch = sentences()
    model(batch)
    expected = randomize(model)(batch)
    same, errors = to_collaborative(model)
    assert len(errors) == 3
    check_close(same(batch), expected, 1e-5)
    layer = same.decoder_blocks[0].attention
    assert type(layer) is CollaborativeAttention and layer.dropout == 0.1 and layer.role == "decoder"
    same.save(tmp_path / "model.keras")
    check_close(keras.saving.load_model(tmp_path / "model.keras")(batch), expected, 1e-5)


@pytest.mark.parametrize("options", [{}, {"use_bias": False, "attn_logits_soft_cap": 2.0, "use_sinks": True}])
def test_layer(options):
    """Inputs of other widths, more key and value than query, a gate, the scale, ALiBi, a functional model."""
    inputs = cross_inputs(dtype="float64")
    options |= {"scale": 0.3, "use_gate": True, "relative_positions": ALiBiPositions(), "dtype": "float64"}
    layer = build(MultiHeadAttention(3, 4, 5, **options), *inputs)
    same, errors = to_collaborative(layer)
    assert list(errors.values()) == [0.0] and same.scale == 0.3
    check_close(same(*inputs), layer(*inputs), 1e-12)
    x = keras.Input((5, 12), dtype="float64")
    model = randomize(keras.Model(x, MultiHeadAttention(3, 4, dtype="float64")(x, x)))
    check_close(to_collaborative(model)[0](inputs[0]), model(inputs[0]), 1e-12)


def test_public_code(golden):
    """The content bias and the full rank are its own; at rank 5 its factors are one solution, which is no better."""
    data = {name: x.astype("float64") for name, x in golden("variants_collaborative.npz").items() if "." in name}
    x, mask = (golden("variants_collaborative.npz")[name] for name in ("value", "key_mask"))
    x = x.astype("float64")
    layer = MultiHeadAttention(3, 4, output_shape=12, dtype="float64")
    layer.build(x.shape, x.shape)
    kernels = {side: data[f"mha.w.{side}.weight"].T.reshape(10, 3, 4) for side in ("query", "key", "value")}
    for side, kernel in kernels.items():
        getattr(layer, f"{side}_dense").set_weights([kernel, data[f"mha.w.{side}.bias"].reshape(3, 4)])
    layer.output_dense.set_weights([np.eye(12).reshape(3, 4, 12), np.zeros(12)])
    same, _ = to_collaborative(layer)
    check_close(same.content_kernel, data["converted_exact.content_bias.weight_f64"].T, 1e-12)
    check_close(same(x, x, key_mask=mask), data["converted_exact.out_f64"], 1e-12)
    factors = [data[f"converted_rank5.{name}_f64"] for name in ("query.weight", "mixing", "key.weight")]
    tensor = np.einsum("ihk,jhk->ihj", kernels["query"], kernels["key"])
    theirs = tensor - np.einsum("ri,hr,rj->ihj", *factors)
    *_, error = decompose(kernels["query"], kernels["key"], 5)
    assert error < 1.05 * np.linalg.norm(theirs) / np.linalg.norm(tensor)


def test_decomposition():
    """Of a tensor of a low rank the tensor itself; the error it reports is the error."""
    rng = np.random.default_rng(0)
    a, m, b = (rng.normal(size=(size, 5)) for size in (12, 3, 9))
    query, key = np.einsum("ir,hr->ihr", a, m), np.repeat(b[:, None], 3, axis=1)
    tensor = np.einsum("ihk,jhk->ihj", query, key)
    for rank in (2, 5, 9):
        queries, mixing, keys, error = decompose(query, key, rank)
        rest = np.linalg.norm(np.einsum("ir,hr,jr->ihj", queries, mixing, keys) - tensor) / np.linalg.norm(tensor)
        assert error == pytest.approx(rest, abs=1e-6)
        np.testing.assert_allclose(np.linalg.norm(queries, axis=0), np.linalg.norm(keys, axis=0), rtol=1e-6)
        assert rank < 5 or error < 0.05


def test_inputs_narrower_than_heads():
    rng = np.random.default_rng(0)
    assert decompose(rng.normal(size=(6, 2, 4)), rng.normal(size=(3, 2, 4)), 7)[-1] < 1e-7
