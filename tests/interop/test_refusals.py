"""Layers and models that other libraries, or collaborative heads, have no equal of."""

import json
import pathlib
import tempfile

import keras
import numpy as np
from safetensors.numpy import load_file, save_file

from keras_headattn.interop import copy_attention, from_pretrained, of_addons, to_collaborative, to_hugging_face
from keras_headattn.layers import FeedForward, GroupedQueryAttention, InteractingHeadAttention, MultiHeadAttention
from keras_headattn.models import Bert, CausalLM
from keras_headattn.positions import ALiBiPositions, NtkPositions, RelativePositions, RotaryPositions
from keras_headattn.text import BytePairTokenizer, ByteTokenizer, CharacterTokenizer
from tests.interop.test_attentions import addons_tensors
from tests.layers.harness import build, self_input
from tests.refusals import refusals


def into_keras(layer):
    return lambda: copy_attention(
        build(layer, self_input()), build(keras.layers.MultiHeadAttention(2, 4), self_input())
    )


def collaborative(layer, *arguments):
    return lambda: to_collaborative(build(layer, self_input()), *arguments)


def with_lora():
    layer = build(MultiHeadAttention(4, 3), self_input())
    layer.query_dense.enable_lora(2)
    to_collaborative(layer)


def of_addons_without(name):
    tensors = {f"mha/{name}": tensor for name, tensor in addons_tensors().items()}
    return lambda: of_addons({key: tensor for key, tensor in tensors.items() if key != f"mha/{name}"})


test_attention_of_keras = refusals(
    (into_keras(InteractingHeadAttention(2, 4)), "layers.absorb", "InteractingHeadAttention"),
    (into_keras(MultiHeadAttention(2, 4, qk_norm=True, scale=1.0)), "qk_norm, scale", "a layer"),
    (into_keras(MultiHeadAttention(2, 4, exclusive="head")), "exclusive", "a layer"),
    (into_keras(MultiHeadAttention(2, 4, value_residual=True, role="encoder", depth=0)), "value_residual", "a layer"),
    (into_keras(GroupedQueryAttention(2, 4, num_key_value_heads=1)), "its equal", "GroupedQueryAttention"),
)

test_attention_of_addons = refusals(
    (of_addons_without("key_kernel"), "kernels", "mha without key_kernel"),
    (lambda: of_addons({"dense/kernel": np.zeros(1)}), "query_kernel", "dense/kernel"),
)

test_collaborative_heads = refusals(
    (collaborative(GroupedQueryAttention(4, 3)), "source", "GroupedQueryAttention"),
    (collaborative(MultiHeadAttention(4, 3, qk_norm=True)), "qk_norm", "multi_head_attention"),
    (collaborative(MultiHeadAttention(3, 4, relative_positions=RotaryPositions())), "RotaryPositions", ""),
    (collaborative(MultiHeadAttention(4, 3, relative_positions=RelativePositions(2))), "RelativePositions", ""),
    (collaborative(MultiHeadAttention(4, 3, use_sinks=True)), "use_sinks", ""),
    (collaborative(MultiHeadAttention(4, 3, attn_logits_soft_cap=2.0)), "attn_logits_soft_cap", ""),
    (collaborative(MultiHeadAttention(4, 3), 0), "shared_dim", 0),
    (collaborative(MultiHeadAttention(4, 3), 2.0), "shared_dim", 2.0),
    (collaborative(MultiHeadAttention(4, 3), 13), "shared_dim", 13),
    (lambda: to_collaborative(MultiHeadAttention(4, 3)), "built", "without weights"),
    (with_lora, "LoRA", "multi_head_attention"),
)

test_models = refusals((lambda: to_hugging_face(keras.Sequential(), "none"), "model", "Sequential"))


LLAMA = dict(norm=keras.layers.RMSNormalization(epsilon=1e-6), feed_forward=FeedForward(32, "silu", gated=True))


def language_model(**changes):
    arguments = dict(num_layers=1, hidden_dim=16, num_heads=4, attention_arguments={"use_bias": True}) | LLAMA | changes
    return CausalLM(20, **arguments)


def into_hugging_face(model_type=None, **changes):
    return lambda: to_hugging_face(language_model(**changes), "none", model_type)


def of_hugging_face(config=None, tensors=None, **arguments):
    """Reads a small Llama with other settings or tensors."""

    def call():
        with tempfile.TemporaryDirectory() as folder:
            to_hugging_face(language_model(), folder, "llama")
            file, weights = pathlib.Path(folder, "config.json"), pathlib.Path(folder, "model.safetensors")
            file.write_text(json.dumps(json.loads(file.read_text()) | (config or {})))
            save_file({name: x for name, x in (load_file(weights) | (tensors or {})).items() if len(x)}, weights)
            from_pretrained(folder, **arguments)

    return call


GONE, HEAD = np.zeros(0, "float32"), {"lm_head.weight": np.zeros((20, 16), "float32")}
QUERY, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
YARN = {"type": "yarn", "factor": 2.0, "attention_factor": 3.0}
WINDOW = {"model_type": "qwen2", "layer_types": ["sliding_attention"]}
test_settings_of_language_models = refusals(
    (of_hugging_face({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}), "rope_type", "'dynamic'"),
    (of_hugging_face({"rope_parameters": {"rope_type": "longrope"}}), "rope_type", "'longrope'"),
    (of_hugging_face({"rope_parameters": {"mrope_section": [1]}}), "mrope_section", "[1]"),
    (of_hugging_face({"rope_parameters": 3}), "rope_parameters", "rope_parameters=3"),
    (
        of_hugging_face({"rope_scaling": YARN}),
        "attention_factor",
        3,
    ),
    (of_hugging_face({"hidden_act": "quick_gelu"}), "hidden_act", "'quick_gelu'"),
    (of_hugging_face({"use_wonder": True}), "use_wonder", True),
    (of_hugging_face({"quantization_config": {"bits": 4}}), "quantization_config", "bits"),
    (of_hugging_face({"num_key_value_heads": 3}), "num_key_value_heads", 3),
    (of_hugging_face({"model_type": "qwen3", "rms_norm_eps": 0}), "qk_norm", "0.0"),
    (
        of_hugging_face(WINDOW),
        "layer_types",
        "sliding_attention",
    ),
    (of_hugging_face({"model_type": "smollm3", "no_rope_layers": [2]}), "no_rope_layers", "[2]"),
    (of_hugging_face({"model_type": "mixtral"}), "model_type", "'mixtral'"),
)

test_tensors_of_language_models = refusals(
    (of_hugging_face(tensors=HEAD), "tie_word_embeddings", "lm_head.weight"),
    (of_hugging_face({"tie_word_embeddings": False}), "fit", "missing: lm_head.weight"),
    (of_hugging_face({"num_hidden_layers": 2}), "fit", "missing: layers.1.input_layernorm.weight"),
    (of_hugging_face({"hidden_size": 12}), "fit", "embed_tokens.weight (20, 16), not (20, 12)"),
    (of_hugging_face(tensors={f"{DOWN}.weight": GONE}), "fit", "missing: layers.0.mlp.down_proj.weight"),
    (of_hugging_face(tensors={"model.router.weight": np.zeros(3, "float32")}), "fit", "left over: router.weight"),
    (of_hugging_face(tensors={f"{QUERY}.bias": np.zeros(3, "float32")}), "fit", "(3,), not (16,)"),
)

test_starts_of_language_models = refusals(
    (of_hugging_face(start="new"), "start", "'new'"),
    (of_hugging_face(attention="differential", start="same"), "start", "DifferentialAttention"),
    (of_hugging_face(head="masked_lm"), "head", "llama"),
)

GATED = {"feed_forward": FeedForward(16, "silu", gated=True, use_bias=False)}
test_language_models = refusals(
    (into_hugging_face("bert"), "model_type", "'bert'"),
    (into_hugging_face("gpt2"), "gpt2", "positions"),
    (into_hugging_face("llama", normalization="post"), "normalization='pre'", "normalization='post'"),
    (into_hugging_face("mistral"), "use_bias=False", "use_bias=True"),
    (into_hugging_face(output_bias=True), "output_bias", True),
    (into_hugging_face(logits_soft_cap=3.0), "logits_soft_cap", 3.0),
    (into_hugging_face(embedding_scale=4.0), "embedding_scale", 4.0),
    (into_hugging_face(relative_positions=ALiBiPositions()), "rotary", "ALiBiPositions"),
    (into_hugging_face(relative_positions=NtkPositions(2)), "rotary", "NtkPositions"),
    (into_hugging_face(relative_positions=RotaryPositions(interleaved=True)), "interleaved=False", "interleaved=True"),
    (into_hugging_face(attention="talking_heads"), "multi-head", "TalkingHeadsAttention"),
    (into_hugging_face(attention_arguments={"use_sinks": True}), "use_sinks=False", True),
    (into_hugging_face(attention_arguments={"exclusive": True}), "exclusive=False", True),
    (into_hugging_face(attention_arguments={"value_residual": True}), "value_residual=False", True),
    (into_hugging_face(attention_arguments={"qk_norm": 0.5}, **GATED), "qk_norm=1e-06 as qwen3", "qk_norm=0.5"),
    (into_hugging_face(attention_arguments={"sliding_window": 3}, model_type="llama"), "sliding_window=None", 3),
    (into_hugging_face(feed_forward=keras.layers.Dense(16)), "FeedForward", "Dense"),
)


def with_tokenizer(tokenizer, model=None):
    model = model or language_model(attention_arguments={"use_bias": False}, **GATED)
    return lambda: to_hugging_face(model, "none", tokenizer=tokenizer)


BYTES = ["</s>", *ByteTokenizer().vocabulary]
test_tokenizers_of_language_models = refusals(
    (with_tokenizer(CharacterTokenizer("ab")), "tokenizer", "CharacterTokenizer"),
    (with_tokenizer(ByteTokenizer()), "tokenizer", "257"),
    (with_tokenizer(BytePairTokenizer(BYTES, [], specials={"eos": "</s>"})), "add_eos=False", "add_eos=True"),
    (with_tokenizer(BytePairTokenizer(["a", "?"], [], specials={"unk": "?"})), "unk", "without !"),
    (with_tokenizer(ByteTokenizer(), Bert(9, 8, 8, 1, 2)), "source_tokenizer", "ByteTokenizer"),
)

test_shards = refusals(
    (lambda: to_hugging_face(language_model(), "none", max_shard_size=0), "max_shard_size", 0),
    (lambda: to_hugging_face(language_model(), "none", max_shard_size="5GB"), "max_shard_size", "'5GB'"),
)
