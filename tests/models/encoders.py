"""Small encoders and heads, token ids for them, and weights of Hugging Face's encoders moved into them by hand."""

import functools

import numpy as np

from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import (
    Bert,
    EncoderClassifier,
    MaskedLM,
    ModernBert,
    ReplacedTokenDetector,
    SpanAnswerer,
    TokenClassifier,
)
from tests.layers.harness import randomize

VOCABULARY, WIDTH, HEADS, LENGTH = 13, 12, 3, 10
EVOLVING = functools.partial(EvolvingAttention, alpha=0.4, beta=0.5)
ALONE = functools.partial(EvolvingAttention, alpha=0.0, beta=0.5)  # convolves without a block below
# Arguments that make another encoder of it.
OF = {
    "bert": {},
    "roberta": {"num_segments": 0, "pad_id": 1, "skip_padding": True, "norm_epsilon": 1e-5, "pooler": False},
    "electra": {"embedding_dim": 8, "pooler": False},
    "modernbert": {"pad_id": 1, "sliding_window": 2, "num_layers": 4},
}


def make(kind="bert", randomly=True, **arguments):
    """A built encoder, all of whose weights are seeded random numbers if so asked. Luong attention has one head."""
    if arguments.get("attention") in ("luong", "paired_heads"):
        arguments = {"num_heads": 1 if arguments["attention"] == "luong" else 2, **arguments}
    cls, length = (ModernBert, {}) if kind == "modernbert" else (Bert, {"max_length": LENGTH})
    model = cls(
        **{
            "vocabulary_size": VOCABULARY,
            "hidden_dim": WIDTH,
            "intermediate_dim": 10,
            "num_layers": 2,
            "num_heads": HEADS,
            **length,
            **OF[kind],
            **arguments,
        }
    )
    model.build()
    return randomize(model) if randomly else model


def sentences(seed=0, batch=3, length=6, pad_id=0):
    """The first is whole, the second ends with two padding tokens."""
    ids = np.random.default_rng(seed).integers(2, VOCABULARY, (batch, length)).astype("int32")
    ids[1, -2:] = pad_id
    return ids


def pairs(**arguments):
    """Token ids and segments."""
    ids = sentences(**arguments)
    return {"token_ids": ids, "segment_ids": np.tile(np.arange(ids.shape[1]) > 2, (len(ids), 1)).astype("int32")}


def of_config(config):
    """Arguments of `Bert` from a dictionary as in Hugging Face's config.json."""
    kind = config["model_type"]
    names = {
        "vocabulary_size": "vocab_size",
        "hidden_dim": "hidden_size",
        "intermediate_dim": "intermediate_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "norm_epsilon": "layer_norm_eps",
        "max_length": "max_position_embeddings",
        "num_segments": "type_vocab_size",
        "pad_id": "pad_token_id",
    }
    found = {name: config[theirs] for name, theirs in names.items()}
    if kind == "roberta":
        return found | {"max_length": found["max_length"] - 2, "num_segments": 0, "skip_padding": True, "pooler": False}
    return found | {"embedding_dim": config.get("embedding_size"), "pooler": kind == "bert"}


def move_weights(state, ours, kind):
    """Weights of the encoder `kind`, a dictionary of Hugging Face's names to arrays, into a built `Bert`."""
    state = {name.removeprefix(f"{kind}."): value for name, value in state.items()}
    positions = state["embeddings.position_embeddings.weight"]
    segments = state["embeddings.token_type_embeddings.weight"]
    if kind == "roberta":
        positions = positions[2:] + segments
    else:
        ours.segment_embedding.set_weights([segments])
    ours.token_embedding.set_weights([state["embeddings.word_embeddings.weight"]])
    ours.position_embedding.set_weights([positions])
    move_norm(state, "embeddings.LayerNorm", ours.embedding_norm)
    for name, layer in (("embeddings_project", ours.embedding_projection), ("pooler.dense", ours.pooler)):
        if layer is not None:
            move_dense(state, name, layer)
    for number, block in enumerate(ours.blocks):
        name = f"encoder.layer.{number}"
        for theirs in ("query", "key", "value"):
            move_dense(state, f"{name}.attention.self.{theirs}", getattr(block.attention, f"{theirs}_dense"))
        move_dense(state, f"{name}.attention.output.dense", block.attention.output_dense)
        move_norm(state, f"{name}.attention.output.LayerNorm", block.norms["attention"])
        move_dense(state, f"{name}.intermediate.dense", block.feed_forward.inner)
        move_dense(state, f"{name}.output.dense", block.feed_forward.outer)
        move_norm(state, f"{name}.output.LayerNorm", block.norms["feed_forward"])


def move_dense(state, name, layer):
    kernel = state[f"{name}.weight"].T
    layer.set_weights([kernel.reshape(layer.kernel.shape), state[f"{name}.bias"].reshape(layer.bias.shape)])


def move_norm(state, name, layer):
    layer.set_weights([state[f"{name}.weight"], state[f"{name}.bias"]])


HEAD_INPUTS = {
    "mask_positions": np.array([[1, 4], [3, 0], [2, 2]]),
    "answer_mask": np.array([[1, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1]]),
}
HEADS_OF = {
    "bert": lambda encoder: EncoderClassifier(encoder("bert"), 3),
    "own_pooler": lambda encoder: EncoderClassifier(encoder("bert", pooler=False), 3, head_dim=7),
    "roberta": lambda encoder: EncoderClassifier(encoder("roberta"), 3, "roberta"),
    "electra": lambda encoder: EncoderClassifier(encoder("electra"), 1, "electra", head_dim=7),
    "modernbert": lambda encoder: EncoderClassifier(encoder("modernbert"), 3, "modernbert", pooling="mean"),
    "linear": lambda encoder: EncoderClassifier(encoder("electra"), 3, "linear"),
    "mean": lambda encoder: EncoderClassifier(encoder("bert", pooler=False), 3, pooling="mean"),
    "tokens": lambda encoder: TokenClassifier(encoder("roberta"), 3),
    "masked": lambda encoder: MaskedLM(encoder("electra")),
    "replaced": lambda encoder: ReplacedTokenDetector(encoder("electra")),
    "span": lambda encoder: SpanAnswerer(encoder("bert", pooler=False)),
}


def make_head(head, randomly=True, **arguments):
    """A built head on an encoder of its own, with these arguments."""
    model = HEADS_OF[head](functools.partial(make, randomly=randomly, **arguments))
    model.build()
    return randomize(model) if randomly else model


def inputs_of(model):
    """Ids and segments where the encoder has them, and what the head takes."""
    encoder = model.encoder
    inputs = {"token_ids": sentences(pad_id=1)} if encoder.pad_id else pairs()
    further = {name: HEAD_INPUTS[name] for name in model.head_inputs}
    return inputs | further


def paths(encoder):
    """Of its weights, from the encoder on."""
    return [weight.path.rsplit(f"{encoder.name}/", 1)[1] for weight in encoder.weights]
