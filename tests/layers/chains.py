"""Blocks of attention whose maps go from one to the next: as layers, as the slow oracles, and step by step."""

import numpy as np

from tests.layers import oracles, oracles_evolving
from tests.layers.harness import array, randomize


def build_chain(blocks, query, value=None, key=None, seed=1, logits_shape=None):
    """Builds each block for the map of the one before it, and gives it seeded weights; returns `blocks`.

    The first is built for a previous map of `logits_shape`, if there is one.
    """
    value = query if value is None else value
    key = value if key is None else key
    for i, block in enumerate(blocks):
        block.build(query.shape, value.shape, key.shape, logits_shape)
        logits_shape = block.compute_logits_shape(query.shape, value.shape, logits_shape)
        randomize(block, seed + i)
    return blocks


def run_chain(blocks, query, value=None, key=None, previous=None, **call):
    """Outputs and maps of all blocks; each takes the output of the one before as its query.

    Without a `value` each attends to its own query.
    """
    outputs, maps = [], []
    for block in blocks:
        attended = (query, query) if value is None else (value, value if key is None else key)
        query, previous = block(query, *attended, previous_logits=previous, return_logits=True, **call)
        outputs.append(query)
        maps.append(previous)
    return outputs, maps


def evolving(block):
    """The oracle of a block: of its logits, the previous map and the mask the map that it carries."""
    names = "role", "alpha", "beta", "kernel_size", "convolve_first"
    arguments = {name: getattr(block, name) for name in names}
    weights = oracles.named_weights(block)
    return lambda logits, previous, allowed: oracles_evolving.evolve(logits, previous, allowed, weights, **arguments)


def realformer(block):
    return lambda logits, previous, allowed: oracles_evolving.realformer(logits, previous)


def slow_block(carry, weights, query, value, key, mask, previous):
    """Output, scores and map `(B, h, n, m)` of one block; `mask` `(B, 1 or h, n, m)`."""
    results = []
    for b in range(len(query)):
        sides = {"query": query[b], "key": key[b], "value": value[b]}
        q, k, v = (oracles.project(weights, *side) for side in sides.items())
        logits = oracles_evolving.dot(q, k)
        allowed = np.broadcast_to(mask[min(b, len(mask) - 1)], logits.shape)
        carried = carry(logits, None if previous is None else previous[b], allowed)
        scores, heads = oracles_evolving.attend(carried, v, allowed)
        output = np.einsum("nhv,hvd->nd", heads, weights["attention_output.kernel"])
        results.append((output + weights.get("attention_output.bias", 0), scores, carried))
    return [np.stack(parts) for parts in zip(*results, strict=True)]


def slow_chain(blocks, query, value=None, key=None, mask=None, previous=None, oracle=evolving):
    """What `run_chain` gives, and the scores of all blocks, by loops."""
    outputs, maps, all_scores = [], [], []
    if mask is None:
        mask = np.ones((1, 1, query.shape[1], (query if value is None else value).shape[1]), bool)
    for block in blocks:
        attended = (query, query) if value is None else (value, value if key is None else key)
        weights = oracles.named_weights(block)
        query, scores, previous = slow_block(oracle(block), weights, query, *attended, mask, previous)
        outputs.append(query)
        maps.append(previous)
        all_scores.append(scores)
    return outputs, maps, all_scores


def decode_chain(blocks, caches, query, sizes, self_attention, step=None, **call):
    """The last output of a chain that gets `query` in pieces of these sizes, and the map of each piece.

    Args:
        caches: one a block, of `init_cache` for self-attention, else of `project_cache`.
        step: what is called in place of each block, a compiled function say; one a block.
        call: call arguments; of a mask `(B, rows, columns)` each piece gets its rows.
    """
    caches, outputs, maps, index = list(caches), [], [], 0
    for size in sizes:
        x, carried = query[:, index : index + size], None
        now = dict(call, index=index)
        if "attention_mask" in now:
            now["attention_mask"] = now["attention_mask"][:, index : index + size]
        for i, block in enumerate(step or blocks):
            attended = {"value": x} if self_attention else {}
            x, carried, caches[i] = block(
                x, **attended, previous_logits=carried, return_logits=True, cache=caches[i], **now
            )
        outputs.append(array(x))
        maps.append(array(carried))
        index += size
    return np.concatenate(outputs, axis=1), np.concatenate(maps, axis=2)


def check_maps(got, expected, allowed, tolerance=1e-12):
    """Equal where the mask allows; what a map holds elsewhere never comes to be used."""
    got, allowed = array(got), np.broadcast_to(allowed, expected.shape)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got[allowed], expected[allowed], rtol=0, atol=tolerance * np.abs(expected).max())
