"""`.h5` weights of lsdefine/attention-is-all-you-need-keras, against formulas in NumPy that equal its code."""

import h5py
import numpy as np
import pytest

from keras_headattn.interop import from_lsdefine
from keras_headattn.layers import MultiHeadAttention
from tests.layers.harness import array
from tests.refusals import refused

WIDTH, INNER, HEADS, SOURCE, TARGET, LIMIT, DEPTH = 12, 20, 3, 9, 10, 8, 2


def positions(length, width):
    table = np.zeros((length, width))
    for place in range(1, length):
        for j in range(width):
            angle = place / 10_000 ** (2 * (j // 2) / width)
            table[place, j] = np.cos(angle) if j % 2 else np.sin(angle)
    return table


def norm(x, gamma, beta):
    return gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6) + beta


def attend(query, key, value, mask, w_q, w_k, w_v, w_o, b_o):
    heads = []
    for columns in np.split(np.arange(w_q.shape[1]), HEADS):
        logits = (query @ w_q[:, columns]) @ (key @ w_k[:, columns]).swapaxes(1, 2) / np.sqrt(len(columns))
        logits = logits - 1e9 * (1 - mask)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ (value @ w_v[:, columns]))
    return np.concatenate(heads, -1) @ w_o + b_o


class Program:
    """Random weights of its layers in the order in which it makes them, and its model."""

    def __init__(self, share=False):
        self.random, self.layers, self.counts = np.random.default_rng(0), [], {}
        self.table = positions(LIMIT, WIDTH)
        self.add("embedding", embeddings=self.table)
        self.source = self.add("embedding", embeddings=(SOURCE, WIDTH))[0]
        self.target = self.source if share else self.add("embedding", embeddings=(TARGET, WIDTH))[0]
        self.encoder = [self.block(1) for _ in range(DEPTH)]
        self.decoder = [self.block(2) for _ in range(DEPTH)]
        (self.output,) = self.add("time_distributed", kernel=(WIDTH, len(self.target)))

    def add(self, kind, **weights):
        weights = {
            name: self.random.normal(scale=0.5, size=x) if isinstance(x, tuple) else x for name, x in weights.items()
        }
        number = self.counts[kind] = self.counts.get(kind, -1) + 1
        if kind == "time_distributed":  # the layer inside counts, too
            self.counts["dense"] += 1
        self.layers.append((kind + f"_{number}" * bool(number), weights))
        return list(weights.values())

    def block(self, count):
        attentions = []
        for _ in range(count):
            kernels = [self.add("dense", kernel=(WIDTH, WIDTH))[0] for _ in range(3)]
            attentions.append(kernels + self.add("time_distributed", kernel=(WIDTH, WIDTH), bias=(WIDTH,)))
        inner = self.add("conv1d", kernel=(1, WIDTH, INNER), bias=(INNER,))
        outer = self.add("conv1d", kernel=(1, INNER, WIDTH), bias=(WIDTH,))
        norms = [self.add("layer_normalization", gamma=(WIDTH,), beta=(WIDTH,)) for _ in range(1 + count)]
        return attentions, inner, outer, norms

    def save(self, path, prefix=""):
        with h5py.File(path, "w") as file:
            for name, weights in reversed(self.layers):  # Keras orders them by depth
                for weight, value in weights.items():
                    file[f"{prefix}{name}/{name}/{weight}:0"] = value.astype("float32")

    def __call__(self, source, target):
        x, y = (
            table[ids] + self.table[np.arange(1, 1 + ids.shape[1]) * (ids != 0)]
            for table, ids in ((self.source, source), (self.target, target))
        )
        source_mask = (source != 0)[:, None, :]
        target_mask = (target != 0)[:, None, :] & np.tri(target.shape[1], dtype=bool)
        for block in self.encoder:
            x = self.run(block, x, [(x, source_mask)])
        for block in self.decoder:
            y = self.run(block, y, [(None, target_mask), (x, source_mask)])
        return y @ self.output

    @staticmethod
    def run(block, x, attended):
        attentions, (w_1, b_1), (w_2, b_2), (last, *norms) = block
        for weights, parameters, (memory, mask) in zip(attentions, norms, attended, strict=True):
            memory = x if memory is None else memory
            x = norm(x + attend(x, memory, memory, mask, *weights), *parameters)
        return norm(x + np.maximum(x @ w_1[0] + b_1, 0) @ w_2[0] + b_2, *last)


def test_formulas(golden):
    """The formulas are those of its code, as far as each row has its own mask; so is the attention layer's."""
    data = golden("mha_lsdefine.npz")
    weights = [data[name] for name in ("WQ", "WK", "WV", "WO", "bO")]
    layer = MultiHeadAttention(HEADS, WIDTH // HEADS)
    layer.build(data["query"].shape, data["value"].shape, data["key"].shape)
    kernels = [x.reshape(WIDTH, HEADS, -1) for x in weights[:3]] + [weights[3].reshape(HEADS, -1, WIDTH)]
    for name, kernel in zip(("query", "key", "value", "output"), kernels, strict=True):
        getattr(layer, f"{name}_dense").kernel.assign(kernel)
    layer.output_dense.bias.assign(weights[4])
    inputs = [data[name] for name in ("query", "key", "value")]
    for mask in ("mask3d", "mask2d"):
        given = data[mask] if mask == "mask3d" else data[mask][:, None]
        expected = data[f"mode1.{mask}.out"]
        np.testing.assert_allclose(attend(*inputs, given, *weights), expected, atol=1e-6)
        ours = layer(inputs[0], inputs[2], inputs[1], attention_mask=given > 0)
        np.testing.assert_allclose(array(ours), expected, atol=1e-6)
    np.testing.assert_allclose(norm(*(data[f"ln.{name}"] for name in ("x", "gamma", "beta"))), data["ln.y"], atol=1e-6)
    np.testing.assert_allclose(positions(9, 10), data["GetPosEncodingMatrix_9x10"], atol=1e-12)


@pytest.mark.parametrize("share, prefix", [(False, ""), (True, "model_weights/")])
def test_transformer(share, prefix, tmp_path):
    program = Program(share)
    program.save(tmp_path / "en2de.model.h5", prefix)
    model, report = from_lsdefine(tmp_path / "en2de.model.h5", HEADS, return_report=True)
    assert not report.initialised and not report.left_over
    assert (model.target_vocabulary_size is None) == share
    source = np.array([[2, 4, 5, 6, 3], [2, 7, 3, 0, 0]])
    target = np.array([[2, 5, 8, 6], [2, 4, 7, 0]])
    expected = program(source, target)
    found = array(model({"source": source, "target": target}))
    np.testing.assert_allclose(found[target != 0], expected[target != 0], atol=1e-4)


def test_refused(tmp_path):
    program = Program()
    program.layers.pop(5)
    program.save(tmp_path / "weights.h5")
    with refused("lsdefine", "17 dense"):
        from_lsdefine(tmp_path / "weights.h5", HEADS)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["lstm/lstm/kernel:0"] = np.zeros((2, 2), "float32")
    with refused("nothing was copied", "left over: lstm/lstm/kernel"):
        from_lsdefine(tmp_path / "other.h5", HEADS)
