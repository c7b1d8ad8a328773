"""Runs every case on the backend of this process: python -m tests.layers.jax_worker INPUTS.npz OUTPUTS.npz"""

import sys

import keras
import numpy as np

from keras_headattn.ops import write_rows
from tests.layers.harness import BATCH, CASES, KEYS, QUERIES, array, cross_inputs, random_mask, self_input

LENGTH = 4


def layer_with(case, weights, query, value, key, **arguments):
    """Built with zeros, as JAX would compile a random initializer for each shape."""
    layer = case.make(kernel_initializer="zeros", **arguments)
    layer.build(query.shape, value.shape, key.shape)
    layer.set_weights(weights)
    return layer


def results(case, weights):
    """Name to array: outputs and scores of cross-attention."""
    query, value, key = cross_inputs()
    layer = layer_with(case, weights, query, value, key)
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 2] = False  # a query that may attend to nothing, on the fused path and on the other
    out = {"plain": layer(query, value, key), "masked": layer(query, value, key, attention_mask=mask)}
    both = layer(query, value, key, attention_mask=mask, return_attention_scores=True)
    out["with_scores"], out["scores"] = both
    out["causal"] = layer(query, value, key, use_causal_mask=True, value_mask=mask[:, 0])
    if case.causal:
        out["cross_cached"] = layer(query, cache=layer.project_cache(value, key), key_mask=mask[:, 0])
    return out


def decoded(case, weights):
    """Step by step and all at once."""
    x = self_input(length=LENGTH)
    layer = layer_with(case, weights, x, x, x)
    cache, steps = layer.init_cache(BATCH, LENGTH), []
    for i in range(LENGTH):
        piece = x[:, i : i + 1]
        output, cache = layer(piece, piece, cache=cache, index=i, use_causal_mask=True)
        steps.append(array(output))
    return {"steps": np.concatenate(steps, axis=1), "at_once": layer(x, x, use_causal_mask=True)}


def half(case, weights):
    """float16: the query that may attend to nothing must give zeros there as well."""
    query, value, key = cross_inputs()
    layer = layer_with(case, weights, query, value, key, dtype="mixed_float16")
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 2] = False
    return {"half": layer(query, value, key, attention_mask=mask)}


def written_rows():
    """A cache after one and after two rows are written: on JAX axes are easily swapped when n = batch."""
    rng = np.random.default_rng(0)
    cache, rows = (rng.normal(size=(BATCH, 3, n, 5)).astype("float32") for n in (4, 3))
    pieces = ((1, 0), (2, 1), (3, 1))
    return {f"write_rows/{n}_at_{index}": write_rows(cache, rows[:, :, :n], index) for n, index in pieces}


def everything(given):
    """All results of all cases; an exception becomes the result `case/function/error`."""
    out = {}
    try:
        out |= {name: array(value) for name, value in written_rows().items()}
    except Exception as error:
        out["write_rows/error"] = np.array(f"{type(error).__name__}: {error}")
    for case in CASES:
        for function, kind in ((results, "cross"), *([(decoded, "self")] if case.causal else []), (half, "cross")):
            weights = [given[name] for name in sorted(given) if name.startswith(f"{case.name}/{kind}/")]
            try:
                found = function(case, weights)
                out |= {f"{case.name}/{name}": array(value) for name, value in found.items()}
            except Exception as error:  # so that the other cases are still compared
                out[f"{case.name}/{function.__name__}/error"] = np.array(f"{type(error).__name__}: {error}")
    return out


if __name__ == "__main__":
    with np.load(sys.argv[1]) as given:
        outputs = everything(dict(given))
    np.savez(sys.argv[2], backend=keras.backend.backend(), **outputs)
