"""`ModernBert`: windows, two rotary bases, pre-norm blocks, gates; and packed texts in all encoders."""

import keras
import numpy as np
import pytest
from scipy.special import erf

from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import MaskedLM, ModernBert
from tests.layers.harness import randomize
from tests.models.encoders import HEADS, VOCABULARY, WIDTH, make, make_head, sentences
from tests.models.small import array, check_close
from tests.refusals import refused

WINDOW, EVERY, BASES = 2, 3, (160_000, 10_000)


def states(model, inputs):
    return array(model(inputs)["sequence_output"])


# ------------------------------------------------------------------------------------------------ equations


def norm(x, layer):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * array(layer.gamma)


def rotated(heads, base):
    """Heads `(B, h, n, d)`, whose features i and i + d / 2 are a complex number that turns."""
    n, width = heads.shape[-2:]
    angles = np.arange(n)[:, None] * base ** (-2.0 * np.arange(width // 2) / width)
    turned = (heads[..., : width // 2] + 1j * heads[..., width // 2 :]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attended(x, layer, base, may):
    query, key, value = (
        np.einsum("bnd,dhk->bhnk", x, array(getattr(layer, f"{name}_dense").kernel))
        for name in ("query", "key", "value")
    )
    logits = rotated(query, base) @ np.swapaxes(rotated(key, base), -1, -2) / np.sqrt(query.shape[-1])
    weights = np.where(may, np.exp(logits), 0)
    heads = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30) @ value
    return np.einsum("bhnk,hkd->bnd", heads, array(layer.output_dense.kernel))


def fed(x, layer):
    inner, gate = x @ array(layer.inner.kernel), x @ array(layer.gate.kernel)
    return inner * (1 + erf(inner / np.sqrt(2))) / 2 * gate @ array(layer.outer.kernel)


def test_equations():
    """In NumPy; the first block is global and has no norm before its attention, the fourth is global again."""
    model, ids = make("modernbert"), sentences(pad_id=1, length=9)
    x = norm(array(model.token_embedding.embeddings)[ids].astype("float64"), model.embedding_norm)
    distances = np.abs(np.arange(9)[:, None] - np.arange(9))
    for i, block in enumerate(model.blocks):
        is_local = i % EVERY > 0
        may = (ids != 1)[:, None, None] & (distances < (WINDOW if is_local else 99))
        y = norm(x, block.norms["attention"]) if i else x
        x = x + attended(y, block.attention, BASES[is_local], may)
        x = x + fed(norm(x, block.norms["feed_forward"]), block.feed_forward)
    expected = norm(x, model.final_norm)
    check_close(states(model, ids)[ids != 1], expected[ids != 1], 2e-5)
    assert not any("beta" in weight.path or "bias" in weight.path for weight in model.weights)


def test_the_head_of_a_classifier():
    head = make_head("modernbert")
    ids = sentences(pad_id=1)
    x = states(head.encoder, ids)
    real = (ids != 1)[..., None]
    hidden = (x * real).sum(1) / real.sum(1) @ array(head.hidden.kernel)
    hidden = norm(hidden * (1 + erf(hidden / np.sqrt(2))) / 2, head.norm)
    kernel, bias = map(array, head.output_projection.weights)
    check_close(head(ids), hidden @ kernel + bias, 1e-5)


# --------------------------------------------------------------------------------------------- packed texts


def packed(ids, pad_id):
    """The texts in one row, without padding but for the last two tokens, and the number of each."""
    real = ids != pad_id
    row = np.append(ids[real], [pad_id, pad_id])[None].astype("int32")
    numbers = np.append(np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)[real], [0, 7])[None]
    return {"token_ids": row, "sequence_ids": numbers.astype("int32")}


@pytest.mark.parametrize("kind, attention", [
    ("modernbert", "multi_head"), ("modernbert", "talking_heads"), ("modernbert", "multi_token"),
    ("modernbert", "differential"), ("bert", "multi_head"), ("roberta", "grouped_query"), ("electra", "interacting"),
])  # fmt: skip
def test_packed_texts_are_as_alone(kind, attention):
    model = make(kind, attention=attention, **({} if kind == "modernbert" else {"max_length": 30}))
    ids = sentences(pad_id=model.pad_id)
    inputs = packed(ids, model.pad_id)
    expected = states(model, ids)[ids != model.pad_id]
    check_close(states(model, inputs)[0, :-2], expected, 2e-5)
    as_one = states(model, inputs["token_ids"])[0, :-2]
    assert np.abs(as_one - expected)[6:].max() > 1e-3


def test_packed_texts_with_heads():
    ids = sentences(pad_id=1)
    masked = randomize(MaskedLM(make("modernbert")))
    check_close(array(masked(packed(ids, 1)))[0, :-2], array(masked(ids))[ids != 1], 2e-5)
    for head in ("modernbert", "span"):
        with refused("one text a row", "'sequence_ids', 'token_ids'"):
            make_head(head)(packed(ids, 1))


# ---------------------------------------------------------------------------------------- precision, files


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(dtype):
    ids, plain = sentences(pad_id=1), make("modernbert", randomly=False)
    model = make("modernbert", randomly=False, dtype=dtype)
    model.set_weights(plain.get_weights())
    found = model(ids)["sequence_output"]
    assert found.dtype == dtype.removeprefix("mixed_")
    check_close(array(found).astype("float32"), states(plain, ids), 0.1 if "bfloat" in dtype else 0.01)


def test_a_file(tmp_path):
    ids, model = sentences(pad_id=1), make("modernbert", max_wavelength=50.0, local_max_wavelength=20.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(states(loaded, ids), states(model, ids))
    assert np.abs(states(make("modernbert"), ids) - states(model, ids)).max() > 1e-3


def test_segments_are_ignored():
    ids, model = sentences(pad_id=1), make("modernbert")
    found = states(model, {"token_ids": ids, "segment_ids": np.ones_like(ids)})
    np.testing.assert_array_equal(found, states(model, ids))


@pytest.mark.parametrize("attention", ["evolving", "mixture_of_heads"])
def test_training(attention):
    """All weights get a gradient, with windows and with the maps of one block in the next."""
    model = make("modernbert", attention=attention)
    model.compile(keras.optimizers.SGD(0.1), {"sequence_output": "mse"}, run_eagerly=True)
    before = [array(weight).copy() for weight in model.trainable_weights]
    ids = sentences(pad_id=1)
    model.fit(ids, {"sequence_output": np.zeros((*ids.shape, WIDTH))}, verbose=0)
    still = [w.path for w, old in zip(model.trainable_weights, before, strict=True) if np.array_equal(array(w), old)]
    assert not still


def test_windows_are_of_blocks():
    """Those of a layer stay where the model has none."""
    given = dict(num_layers=7, num_heads=HEADS, hidden_dim=WIDTH, intermediate_dim=10)
    windows = {}
    for name, arguments in (
        ("model", dict(sliding_window=5, global_every=2)),
        ("layer", dict(attention=MultiHeadAttention(2, 4, sliding_window=4), sliding_window=None)),
    ):
        model = ModernBert(VOCABULARY, **given, **arguments)
        model.build()
        windows[name] = [block.attention.sliding_window for block in model.blocks]
    assert windows == {"model": [None, 5, None, 5, None, 5, None], "layer": [4] * 7}
