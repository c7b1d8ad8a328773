"""Models and their ONNX files, on Keras's PyTorch backend: with free sizes, other than those of the trace."""

import functools

import keras
import numpy as np

from keras_headattn.layers import EvolvingAttention, GraphAttention, GraphBlock
from keras_headattn.models import T5, BiLSTMEncoder, ResNet, SentenceClassifier, TransformerEncoder, ViT
from tests.layers.backend_worker import answers, arrays
from tests.layers.harness import CASES, randomize
from tests.models import encoders, small

HEADS = "bert", "roberta", "modernbert", "masked", "replaced"
MAX_LENGTH = 8  # tokens of a translation


def spec(name, *shape, dtype="int32"):
    return keras.InputSpec(shape=shape, dtype=dtype, name=name)


IDS, SEGMENTS, SOURCE, TARGET = (spec(name, None, None) for name in ("token_ids", "segment_ids", "source", "target"))
PAIR = {"token_ids": IDS, "segment_ids": SEGMENTS}
SENTENCES = {"source": SOURCE, "target": TARGET}


# Each returns a model, the specification of its inputs, and two inputs of other sizes.


def encoder(attention):
    return encoders.make("electra", attention=attention), IDS, [encoders.sentences(), encoders.sentences(1, 2, 9)]


def head(kind):
    model = encoders.make_head(kind)
    if model.encoder.pad_id:
        return model, IDS, [encoders.sentences(pad_id=1), encoders.sentences(1, 2, 9, pad_id=1)]
    return model, PAIR, [encoders.pairs(), encoders.pairs(seed=1, batch=2, length=9)]


def transformer(name):
    model = small.make(next(case for case in CASES if case.name == name), dropout=0.0)
    return model, SENTENCES, [small.sentences(), small.sentences(1, 3, 7, 4)]


def t5():
    model = T5(13, 12, 10, 1, num_heads=3, key_dim=5, activation="gelu_tanh", gated=True, dropout=0.0)
    model.build()
    return randomize(model), SENTENCES, [small.sentences(), small.sentences(1, 3, 7, 4)]


def start(name):
    """The first of the two models that a search in ONNX Runtime calls."""
    model = small.make(next(case for case in CASES if case.name == name), dropout=0.0)
    return Start(model), SOURCE, [small.sentences()["source"], small.sentences(1, 3, 7)["source"]]


def step(name):
    """The second, at two places, with a cache that is not empty."""
    model = small.make(next(case for case in CASES if case.name == name), dropout=0.0)
    source, target = small.sentences().values()
    cache = model.decode_step(target[:, :4], Start(model)(source), 0)[1]
    inputs = [{"tokens": target[:, i : i + 1], "cache": cache, "index": np.array(i, "int32")} for i in (4, 1)]
    return (
        Step(model),
        keras.tree.map_structure(free_batch, inputs[0]),
        keras.tree.map_structure(keras.ops.convert_to_numpy, inputs),
    )


class Start(keras.Model):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.built = True

    def call(self, source):
        return self.model.init_cache(source, MAX_LENGTH)


class Step(Start):
    def call(self, inputs):
        return self.model.decode_step(inputs["tokens"], inputs["cache"], inputs["index"])


def free_batch(tensor):
    """The specification of a tensor of any number of sentences; what has one axis, or none, has no sentences."""
    shape = tuple(tensor.shape)
    return spec(
        None, *(shape if len(shape) < 2 else (None, *shape[1:])), dtype=keras.backend.standardize_dtype(tensor.dtype)
    )


def sentence_classifier():
    network = TransformerEncoder(11, 12, 10, num_heads=3, normalization="pre", dropout=0.0)
    model = SentenceClassifier(network, 3, mlp_dim=7, dropout=0.0)
    model.build()
    return randomize(model), IDS, [encoders.sentences() % 11, encoders.sentences(1, 2, 9) % 11]


def bilstm(length=None):
    model = SentenceClassifier(BiLSTMEncoder(11, 12, 5, dropout=0.0), 3, mlp_dim=7, dropout=0.0)
    model.build()
    return randomize(model), spec("token_ids", None, length), [encoders.sentences(length=length or 6) % 11]


def bilstm_of_one_length():
    model, signature, (ids,) = bilstm(3)
    return model, signature, [ids, ids[:2]]


def graph_block():
    inputs = keras.Input((None, 12)), keras.Input((None, None), dtype="bool")
    block = GraphBlock(GraphAttention(3, 4), intermediate_dim=10)
    model, rng = keras.Model(inputs, block(*inputs)), np.random.default_rng(0)
    randomize(block)
    sizes = (2, 5), (3, 4)
    return model, None, [[rng.normal(size=(b, n, 12)).astype("float32"), rng.random((b, n, n)) < 0.6] for b, n in sizes]


def resnet():
    attention = EvolvingAttention(num_heads=2, key_dim=4, alpha=0.5, beta=1.0)
    sizes = dict(filters=16, min_key_dim=4, input_shape=(8, 10, 3), classes=5)
    model = ResNet((1,), attention=attention, small_images=True, attention_stages=(0,), downsampled_stages=(), **sizes)
    images = np.random.default_rng(0).normal(size=(3, 8, 10, 3)).astype("float32")
    return randomize(model), None, [images, images[:2]]


def vit():
    sizes = dict(patch_size=4, hidden_dim=16, intermediate_dim=20, num_layers=1, num_heads=2, classes=5)
    model = ViT((8, 12, 3), attention="talking_heads", **sizes)
    model.build()
    images = np.random.default_rng(0).normal(size=(3, 8, 12, 3)).astype("float32")
    return randomize(model), spec("images", None, 8, 12, 3, dtype="float32"), [images, images[:2]]


WHOLE = {
    **{f"encoder/{name}": functools.partial(encoder, name) for name in ("multi_head", "talking_heads", "evolving")},
    **{f"head/{name}": functools.partial(head, name) for name in HEADS},
    **{f"transformer/{name}": functools.partial(transformer, name) for name in ("multi_head", "options")},
    "t5": t5,
    **{
        f"{make.__name__}/{name}": functools.partial(make, name)
        for make in (start, step)
        for name in ("relative", "evolving_decoder")
    },
    "sentence_classifier": sentence_classifier,
    "bilstm_of_one_length": bilstm_of_one_length,
    "graph_block": graph_block,
    "resnet": resnet,
    "vit": vit,
}


def stock_norm():
    inputs = keras.Input((None, 4))
    return keras.Model(inputs, keras.layers.LayerNormalization()(inputs)), None, [np.ones((2, 3, 4), "float32")]


def stock_lstm():
    inputs = keras.Input((None, 4))
    model = keras.Model(inputs, keras.layers.LSTM(3)(inputs))
    return randomize(model), None, [np.ones((2, 3, 4), "float32")]


def mask_positions():
    model = encoders.make_head("masked")
    inputs = {name: ids.astype("int32") for name, ids in encoders.inputs_of(model).items()}
    return model, {name: spec(name, None, None) for name in inputs}, [inputs]


# What does not leave with free lengths, and what is said or seen then. The first two are Keras's own layers.
NOT_EXPORTED = {
    stock_norm: "SymbolicValueError",
    stock_lstm: "Not equal to tolerance",
    bilstm: "Split",
    mask_positions: "take_along_dim",
}


def compared(make):
    """Name to array: what a model and its ONNX file answer."""
    model, signature, inputs = make()
    return answers(model, dict(enumerate(inputs)), signature=None if signature is None else [signature])


def everything():
    """Results `onnx/name/result`."""
    out = {}
    for name, make in {**WHOLE, **{make.__name__: make for make in NOT_EXPORTED}}.items():
        out |= arrays(f"onnx/{name}", compared, make, prefix=f"onnx/{name}/")
    return out
