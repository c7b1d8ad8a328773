"""Tiny graph writers, graphs for them, and the weights of the public code."""

import functools

import numpy as np

from keras_headattn.models import GraphWriter
from tests.layers.harness import randomize

WORDS, ENTITY_WORDS, TITLE_WORDS, RELATIONS, WIDTH = 13, 9, 8, 2, 12
SIZES = dict(num_layers=2, hidden_dim=WIDTH, intermediate_dim=10, num_heads=3)


def make(weights_seed=1, **arguments):
    """A built model, all of whose weights are seeded random numbers."""
    arguments = {"title_vocabulary_size": TITLE_WORDS, **SIZES, **arguments}
    model = GraphWriter(WORDS, ENTITY_WORDS, RELATIONS, **arguments)
    model.build()
    return randomize(model, weights_seed)


@functools.cache
def shared(titles=True):
    """The model of `make`, for all tests that only read it."""
    return make(title_vocabulary_size=TITLE_WORDS if titles else None)


def graphs(target=5):
    """Two graphs: of 3 entities and 2 triples, and of 2 entities and an unknown relation."""
    rng = np.random.default_rng(0)
    inputs = {
        "entities": np.array([[[3, 4], [5, 0], [6, 7]], [[8, 0], [3, 2], [0, 0]]]),
        "types": np.array([[10, 11, 10], [11, 12, 0]]),
        "triples": np.array([[[0, 3, 2], [2, 4, 1]], [[1, 1, 0], [0, 0, 0]]]),
        "title": np.array([[4, 5, 6, 2], [7, 3, 0, 0]]),
        "target": rng.integers(2, WORDS + 2, (2, target)),
    }
    return {name: ids.astype("int32") for name, ids in inputs.items()}


def padded(inputs, **more):
    """The same graphs with this many more places of padding on the second axis of each input."""
    return {
        name: np.pad(ids, [(0, more.get(name, 0) if axis == 1 else 0) for axis in range(ids.ndim)])
        for name, ids in inputs.items()
    }


# The public code


def attention_weights(data, theirs):
    names = {side: data[f"w.{theirs}.{side}_layer.weight"].T for side in ("query", "key", "value")}
    return {f"{side}/kernel": kernel.reshape(len(kernel), 4, -1) for side, kernel in names.items()}


def block_weights(data, number):
    """Those of a graph block, by the end of the path."""
    theirs = f"ge.gat.{number}"
    names = {"norm/gamma": "ln_1.weight", "norm/beta": "ln_1.bias", "activation/alpha": "act.weight"}
    names |= {"inner/bias": "l1.bias", "outer/bias": "l2.bias"}
    found = {ours: data[f"w.{theirs}.{name}"] for ours, name in names.items()}
    found |= {
        f"{ours}/kernel": data[f"w.{theirs}.{name}.weight"].T for ours, name in (("inner", "l1"), ("outer", "l2"))
    }
    return found | {f"attention/{name}": x for name, x in attention_weights(data, f"{theirs}.attn").items()}


def lstm_weights(data, theirs, ending=""):
    kernel, recurrent = (data[f"w.{theirs}.weight_{kind}{ending}"].T for kind in ("ih", "hh"))
    bias = sum(data[f"w.{theirs}.bias_{kind}{ending}"].astype("float64") for kind in ("ih", "hh"))
    return {"kernel": kernel, "recurrent_kernel": recurrent, "bias": bias}


def encoder_weights(data, theirs):
    """Those of two BiLSTMs and their embeddings."""
    found = {"embedding/embeddings": data[f"w.{theirs}.lemb.weight"]}
    for number in range(2):
        for side, ending in (("forward", ""), ("backward", "_reverse")):
            weights = lstm_weights(data, f"{theirs}.encoder", f"_l{number}{ending}")
            found |= {f"bilstm_{number}/{side}_lstm/lstm_cell/{name}": x for name, x in weights.items()}
    return found


def writer_weights(data):
    """Those of a whole model."""
    parts = {
        "encoder/entities": encoder_weights(data, "le.seqenc"),
        "encoder/title": encoder_weights(data, "tenc"),
        "encoder/block_0": block_weights(data, 0),
        "encoder/block_1": block_weights(data, 1),
        "decoder/cross_graph": attention_weights(data, "attn"),
        "decoder/cross_title": attention_weights(data, "attn2"),
        "decoder/lstm": lstm_weights(data, "lstm"),
    }
    found = {f"{part}/{name}": x for part, weights in parts.items() for name, x in weights.items()}
    found |= {
        "encoder/relations/embeddings": data["w.ge.renc.weight"],
        "word_embedding/embeddings": data["w.emb.weight"],
    }
    for ours, theirs in (("words", "out"), ("copies", "mattn.attnlin"), ("switch", "switch")):
        found[f"output/{ours}/kernel"] = data[f"w.{theirs}.weight"].T
        found[f"output/{ours}/bias"] = data[f"w.{theirs}.bias"]
    return found


def assign(layer, weights):
    """Gives a layer all of its weights, by the end of their path."""
    by_name = {variable.path.split(f"{layer.name}/", 1)[1]: variable for variable in layer.trainable_variables}
    assert set(by_name) == set(weights)
    for name, value in weights.items():
        by_name[name].assign(value)
    return layer
