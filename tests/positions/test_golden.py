"""Parity with public code, run in float64: Llama, GLM, bloom, MPT and T5."""

import json

import numpy as np
import pytest

from keras_headattn.positions import (
    BucketPositions,
    Llama3Positions,
    NtkPositions,
    RotaryPositions,
    YarnPositions,
)
from tests.positions.cases import alibi, array


@pytest.fixture(scope="module")
def of_rotary():
    """Case of the golden file to the class and its arguments; dynamic NTK at one length (200) is NTK of one factor."""
    return {
        "default": (RotaryPositions, {}),
        "partial": (RotaryPositions, {"rotated_share": 0.5}),
        "linear": (RotaryPositions, {"scaling_factor": 4.0}),
        "dynamic": (NtkPositions, {"factor": 2.0 * 200 / 64 - 1}),
        "yarn": (YarnPositions, {"factor": 4.0, "original_max_length": 64}),
        "yarn_no_truncate": (
            YarnPositions,
            {"factor": 8.0, "original_max_length": 64, "beta_fast": 16, "beta_slow": 2, "truncate": False},
        ),
        "yarn_mscale": (
            YarnPositions,
            {"factor": 4.0, "original_max_length": 64, "mscale": 0.7, "mscale_all_dim": 1.2},
        ),
        "llama3": (Llama3Positions, {"factor": 8.0, "original_max_length": 64}),
    }


@pytest.mark.parametrize("pairs", ["half", "interleaved"])
def test_rotary(golden, of_rotary, pairs):
    data = golden("variants_positions.npz")
    assert set(json.loads(str(data["meta_json"]))["rope"]) == {*of_rotary, "dynamic_short"}
    for case, (cls, arguments) in of_rotary.items():
        positions = cls(**arguments, interleaved=pairs == "interleaved", dtype="float64")
        frequencies = data[f"rope.{case}.inv_freq_f64"]
        np.testing.assert_allclose(positions.frequencies(2 * len(frequencies)), frequencies, rtol=1e-14, err_msg=case)
        np.testing.assert_allclose(positions.magnitude, data[f"rope.{case}.attention_factor"], rtol=1e-15)
        if pairs == "interleaved" and case not in ("default", "partial"):
            continue  # the scaled ones were run with half-split pairs only
        for name in ("q", "k"):
            expected = data[f"rope.{case}.{pairs}.{name}_f64"]
            for dtype, tolerance in (("float64", 1e-13), ("float32", 5e-5)):
                got = array(positions.rotate(data[name].astype(dtype), data["positions"]))
                np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance, err_msg=f"{case} {name} {dtype}")


def test_dynamic_scaling_of_a_short_sequence_is_none(golden):
    data = golden("variants_positions.npz")
    np.testing.assert_allclose(RotaryPositions().frequencies(12), data["rope.dynamic_short.inv_freq_f64"], rtol=1e-14)


def test_slopes(golden):
    data = golden("variants_positions.npz")
    names = [name for name in data.files if ".slopes." in name]
    assert len(names) > 30
    for name in names:
        heads = int(name.split(".")[-1].removesuffix("_f64"))
        got = array(alibi(heads).bias(np.zeros((1, heads, 1, 2)), np.array([1]), np.array([0])))
        np.testing.assert_allclose(-got[0, :, 0, 0], data[name], rtol=1e-14, err_msg=name)


def test_alibi(golden):
    """MPT has the row of the last query. Bloom counts unmasked keys from the left: the same but for a constant."""
    data = golden("variants_positions.npz")
    query, last = np.zeros((1, 6, 1, 2)), np.array([6])
    got = array(alibi(6).bias(query, last, np.arange(7)))
    np.testing.assert_allclose(got[0], data["alibi.mpt.bias6_f64"], rtol=0, atol=1e-15)
    for mask, bloom in zip(data["alibi.attention_mask"], data["alibi.bloom.bias6_f64"], strict=True):
        counted = np.cumsum(mask) - 1
        difference = (array(alibi(6).bias(query, counted[-1:], counted))[0] - bloom)[..., mask > 0]
        np.testing.assert_allclose(difference - difference[..., :1], 0, atol=1e-15)


@pytest.mark.parametrize("sizes", ["32.128", "8.20", "16.64", "320.800"])
@pytest.mark.parametrize("kind", ["bi", "uni"])
def test_buckets(golden, kind, sizes):
    data = golden("variants_positions.npz")
    positions = BucketPositions(*map(int, sizes.split(".")), bidirectional=kind == "bi")
    np.testing.assert_array_equal(positions.buckets(data["t5.relative"]), data[f"t5.{kind}.{sizes}"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bias_of_t5(golden, dtype):
    data = golden("variants_positions.npz")
    table, relative = data["t5.table"], data["t5.bias_positions"]
    positions = BucketPositions(dtype=dtype)
    positions.build((None, table.shape[1], None, 4))
    positions.set_weights([table])
    query = np.zeros((1, table.shape[1], len(relative), 4), dtype)
    first = -relative[0, 0]  # relative = key - query, of queries and keys without a gap
    got = positions.bias(query, first + np.arange(len(relative)), np.arange(relative.shape[1]))
    np.testing.assert_allclose(array(got)[0], data["t5.bias_f64"], rtol=0, atol=1e-7 if dtype == "float32" else 0)
