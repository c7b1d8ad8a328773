"""Tiny checkpoints of other libraries, made by code: their names are written down here a second time."""

import json
import re

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

VOCABULARY, WIDTH, INNER, HEADS, LAYERS, LENGTH = 30, 8, 12, 2, 2, 10
BERT = dict(
    vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_attention_heads=HEADS,
    num_hidden_layers=LAYERS, max_position_embeddings=LENGTH, type_vocab_size=2, pad_token_id=0, hidden_act="gelu",
    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, layer_norm_eps=1e-12, initializer_range=0.02,
    is_decoder=False, position_embedding_type="absolute", architectures=["ignored"], transformers_version="5",
)  # fmt: skip
CONFIGS = {
    "bert": BERT | dict(model_type="bert"),
    "roberta": BERT
    | dict(model_type="roberta", type_vocab_size=1, pad_token_id=1, max_position_embeddings=12, layer_norm_eps=1e-5),
    "electra": BERT | dict(model_type="electra", embedding_size=6),
    "t5": dict(
        model_type="t5", vocab_size=VOCABULARY, d_model=WIDTH, d_ff=INNER, d_kv=3, num_layers=LAYERS,
        num_decoder_layers=1, num_heads=HEADS, feed_forward_proj="relu", relative_attention_num_buckets=8,
        relative_attention_max_distance=20, layer_norm_epsilon=1e-6, dropout_rate=0.1, tie_word_embeddings=True,
        is_encoder_decoder=True, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    ),
}  # fmt: skip
CONFIGS["t5_v1_1"] = CONFIGS["t5"] | dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def numbers(shapes, seed=0):
    """Random tensors of these shapes, by name; scales of norms are around 1."""
    rng, scale = np.random.default_rng(seed), re.compile(r"(?i)norm(\.weight|/gamma)$")
    return {
        name: (rng.normal(scale=0.3, size=shape) + bool(scale.search(name))).astype("float32")
        for name, shape in shapes.items()
    }


def _linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name, width=WIDTH):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def bert_state(kind="bert", pooler=True, heads=True):
    """Tensors of a BERT, RoBERTa or ELECTRA of Hugging Face."""
    config = CONFIGS[kind]
    wide = config.get("embedding_size", WIDTH)
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, wide),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], wide),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], wide),
        **_norm("embeddings.LayerNorm", wide),
        **(_linear("embeddings_project", wide, WIDTH) if wide != WIDTH else {}),
    }
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            shapes |= _linear(f"{layer}.attention.self.{name}", WIDTH, WIDTH)
        shapes |= _linear(f"{layer}.attention.output.dense", WIDTH, WIDTH) | _norm(
            f"{layer}.attention.output.LayerNorm"
        )
        shapes |= _linear(f"{layer}.intermediate.dense", WIDTH, INNER) | _linear(f"{layer}.output.dense", INNER, WIDTH)
        shapes |= _norm(f"{layer}.output.LayerNorm")
    if pooler and kind == "bert":
        shapes |= _linear("pooler.dense", WIDTH, WIDTH)
    shapes = {f"{kind}.{name}": shape for name, shape in shapes.items()}
    if heads and kind == "bert":
        shapes |= _linear("cls.predictions.transform.dense", WIDTH, WIDTH)
        shapes |= _norm("cls.predictions.transform.LayerNorm") | {"cls.predictions.bias": (VOCABULARY,)}
    elif heads and kind == "roberta":
        shapes |= _linear("lm_head.dense", WIDTH, WIDTH) | _norm("lm_head.layer_norm") | {"lm_head.bias": (VOCABULARY,)}
    elif heads:
        shapes |= _linear("discriminator_predictions.dense", WIDTH, WIDTH)
        shapes |= _linear("discriminator_predictions.dense_prediction", WIDTH, 1)
    return numbers(shapes)


def t5_state(kind="t5"):
    """Tensors of a T5 of Hugging Face."""
    config, gated = CONFIGS[kind], kind != "t5"
    inner = HEADS * config["d_kv"]
    shapes = {"shared.weight": (VOCABULARY, WIDTH)} | ({"lm_head.weight": (VOCABULARY, WIDTH)} if gated else {})
    for side, layers in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        shapes[f"{side}.final_layer_norm.weight"] = (WIDTH,)
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        shapes[table] = (config["relative_attention_num_buckets"], HEADS)
        for i in range(layers):
            parts = ["SelfAttention"] + ["EncDecAttention"] * (side == "decoder") + ["DenseReluDense"]
            for j, part in enumerate(parts):
                name = f"{side}.block.{i}.layer.{j}"
                shapes[f"{name}.layer_norm.weight"] = (WIDTH,)
                if part == "DenseReluDense":
                    for wi in ("wi_0", "wi_1") if gated else ("wi",):
                        shapes[f"{name}.{part}.{wi}.weight"] = (INNER, WIDTH)
                    shapes[f"{name}.{part}.wo.weight"] = (WIDTH, INNER)
                else:
                    shapes |= {f"{name}.{part}.{letter}.weight": (inner, WIDTH) for letter in "qkv"}
                    shapes[f"{name}.{part}.o.weight"] = (WIDTH, inner)
    return numbers(shapes)


def state_of(kind, **arguments):
    return t5_state(kind) if kind.startswith("t5") else bert_state(kind, **arguments)


def write(folder, kind, state=None, **changes):
    """A folder as Hugging Face has it; `changes` replace keys of the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state_of(kind) if state is None else state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIGS[kind] | changes))
    return folder


def save_tensorflow(prefix, tensors):
    """A TensorFlow checkpoint with tensors of these names."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(tensor) for tensor in tensors.values()],
    )


def ids(seed=0, length=6, pad_id=0):
    """Token ids; the second sentence ends with two padding tokens."""
    found = np.random.default_rng(seed).integers(3, VOCABULARY, (2, length)).astype("int32")
    found[1, -2:] = pad_id
    return found
