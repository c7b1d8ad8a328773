"""Writing decoder-only language models for Hugging Face's transformers."""

import pathlib

import numpy as np

from keras_headattn.interop._causal import FULL, LAYOUTS, SLIDING, causal_arguments, join, with_attention
from keras_headattn.interop._configs import Config
from keras_headattn.interop._export_tokenizer import tokenizer_files
from keras_headattn.interop._plain import activation_there, plain_parts, refuse, tensors_of
from keras_headattn.interop._tables import GEMMA
from keras_headattn.layers import FeedForward, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.models import CausalLM
from keras_headattn.positions import Llama3Positions, RotaryPositions, YarnPositions

# Settings of layers that change neither outputs nor weights.
HARMLESS = "name trainable dtype dropout seed role depth flash_attention query_chunk_size head_regularizer".split()
HARMLESS += ["relative_positions", "intermediate_dim"]  # compared by the blocks' positions, and by the weights
ENDS = "_initializer", "_regularizer", "_constraint"


def of_causal(model, model_type, tokenizer=None):
    """Returns the configuration, the tensors and other files of a `CausalLM`."""
    if not model.built:
        model.build()
    kind = model_type or _kind(model)
    if kind not in LAYOUTS:
        raise ValueError(f"`model_type` must be one of {', '.join(LAYOUTS)}. Received: {kind!r} for a CausalLM")
    layout = LAYOUTS[kind]
    grouped = (GroupedQueryAttention,) if layout.is_gated else ()
    attentions, weights = plain_parts(model, (MultiHeadAttention, *grouped))
    attentions = [*attentions.values()]
    weights = _with_biases(weights) if kind == "gpt2" else weights
    config = _config(kind, model, attentions)
    _check_same(kind, config, model, attentions)
    files, ids = {}, {}
    if tokenizer is not None:
        files = tokenizer_files(tokenizer, model.vocabulary_size)
        ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_id") for name in ("bos", "eos", "pad")}
        ids = {name: index for name, index in ids.items() if index >= 0}
    generation = ids | ({"bad_words_ids": [[token] for token in model.suppress]} if model.suppress else {})
    tensors = join(kind, tensors_of(weights, layout.names), attentions[0].num_heads)
    return config | ids, tensors, files | {"generation_config.json": generation}


def _with_biases(weights):
    """Returns the weights of a model with biases of 0 where it has none."""
    zeros = {}
    for name, weight in weights.items():
        owner, _, leaf = name.rpartition("/")
        if leaf == "gamma":
            zeros[f"{owner}/beta"] = np.zeros_like(weight)
        elif leaf == "kernel" and owner.startswith("block_"):
            is_head = owner.endswith(("query", "key", "value"))
            zeros[f"{owner}/bias"] = np.zeros(weight.shape[1:] if is_head else weight.shape[-1:], weight.dtype)
    return zeros | weights


def _kind(model):
    templates = [template.layer for template in model.attention_templates]
    if model.positions == "learned":
        return "gpt2"
    if model.normalization == "sandwich":
        return "gemma3_text" if templates[0].qk_norm else "gemma2"
    if not getattr(model.templates["feed_forward"].layer, "gated", True):
        return "gpt_neox"
    if templates[0].qk_norm:
        return "qwen3"
    if templates[0].use_bias == "inputs":
        return "qwen2"
    if None in _positions(model):
        return "smollm3"
    return "llama" if templates[0].sliding_window is None else "mistral"


def _positions(model):
    """Returns the relative positions of each block, a layer or `None`."""
    shared = model.templates["relative_positions"].layer
    positions = [template.layer.relative_positions for template in model.attention_templates]
    return [positions[i % len(positions)] or shared for i in range(model.num_layers)]


def _config(kind, model, attentions):
    """Returns the configuration that says most of a model; `_check_same` finds what it does not say."""
    layout, first = LAYOUTS[kind], attentions[0]
    feed_forward, norm = (model.templates[name].layer for name in ("feed_forward", "norm"))
    if not isinstance(feed_forward, FeedForward):
        refuse("feed-forward layers of FeedForward alone", f"feed_forward={feed_forward!r}")
    config = dict(
        model_type=kind,
        architectures=[layout.architecture],
        vocab_size=model.vocabulary_size,
        hidden_size=model.hidden_dim,
        num_hidden_layers=model.num_layers,
        num_attention_heads=first.num_heads,
        intermediate_size=model.blocks[0].feed_forward.inner.units,
        max_position_embeddings=model.max_length or 2048,
        norm_eps=getattr(norm, "epsilon", None),
        hidden_act=activation_there(feed_forward.activation),
        attention_dropout=first.dropout,
        tie_word_embeddings=model.tie_output,
        bos_token_id=None,  # the tokenizer's
        eos_token_id=None,
        pad_token_id=None,
    )
    if not layout.is_gated:
        config["hidden_dropout"] = model.dropout
    if kind == "gpt_neox":
        config |= dict(use_parallel_residual=model.normalization == "parallel", attention_bias=bool(first.use_bias))
    if layout.is_gated:
        config |= _gated(kind, model, attentions)
    if kind == "gpt2":
        config |= dict(scale_attn_weights=first.scale != 1.0, embd_pdrop=model.dropout)
    else:
        config |= _rotary(kind, model, attentions)
    return {layout.key(name): value for name, value in config.items()}


def _gated(kind, model, attentions):
    first = attentions[0]
    config = dict(head_dim=first.key_dim, num_key_value_heads=getattr(first, "num_key_value_heads", first.num_heads))
    if kind not in ("mistral", "qwen2"):
        config["attention_bias"] = bool(first.use_bias)
    if kind in ("llama", "smollm3"):
        config["mlp_bias"] = model.templates["feed_forward"].layer.use_bias
    windows = [layer.sliding_window for layer in attentions]
    if kind != "llama":
        unused = 4096 if LAYOUTS[kind].names is GEMMA else None  # transformers wants one of every Gemma
        config["sliding_window"] = next((window for window in windows if window), unused)
    if kind not in ("llama", "mistral"):
        config["layer_types"] = [FULL if window is None else SLIDING for window in windows]
    if kind in ("qwen2", "qwen3", "smollm3"):
        config["use_sliding_window"] = any(windows)
    if kind == "smollm3":
        config["no_rope_layers"] = [int(positions is not None) for positions in _positions(model)]
    if LAYOUTS[kind].names is GEMMA:
        config["query_pre_attn_scalar"] = round(first.scale**-2)
        config["attn_logit_softcapping"] = first.attn_logits_soft_cap
        config["final_logit_softcapping"] = model.logits_soft_cap
    return config


def _rotary(kind, model, attentions):
    """Returns the settings of rotary positions, in the form that transformers 4 and 5 read."""
    everywhere = _positions(model)
    whole = [
        encoding
        for encoding, layer in zip(everywhere, attentions, strict=True)
        if encoding and not layer.sliding_window
    ]
    positions = (whole or [encoding for encoding in everywhere if encoding] or [RotaryPositions()])[0]
    if not isinstance(positions, RotaryPositions):
        refuse("rotary positions", f"relative_positions={positions!r}")
    scaling = None
    if type(positions) is RotaryPositions and positions.scaling_factor != 1:
        scaling = dict(rope_type="linear", factor=positions.scaling_factor)
    elif type(positions) is not RotaryPositions:
        scaling = _stretched(positions)
    config = dict(rope_theta=positions.max_wavelength, rope_scaling=scaling)
    if kind == "gpt_neox":
        return {"rotary_emb_base": config.pop("rope_theta"), "rotary_pct": positions.rotated_share, **config}
    if kind == "gemma3_text":
        local = [
            encoding
            for encoding, layer in zip(everywhere, attentions, strict=True)
            if layer.sliding_window and encoding
        ]
        config["rope_local_base_freq"] = local[0].max_wavelength if local else 10_000.0
    return config


def _stretched(positions):
    """Returns the settings of positions of longer sequences."""
    if isinstance(positions, Llama3Positions):
        kind, names = "llama3", ["low_freq_factor", "high_freq_factor"]
    elif isinstance(positions, YarnPositions):
        kind, names = "yarn", ["beta_fast", "beta_slow", "truncate"]
        names += ["mscale", "mscale_all_dim"] * (positions.mscale_all_dim > 0)
    else:
        refuse("rotary positions, plain, scaled or of Llama 3 or YaRN", f"relative_positions={positions!r}")
    scaling = dict(rope_type=kind, factor=positions.factor) | {name: getattr(positions, name) for name in names}
    return scaling | {"original_max_position_embeddings": positions.original_max_length}


def _check_same(kind, config, model, attentions):
    """Refuses a model that its configuration would not give again."""
    arguments, settings, blocks = causal_arguments(Config(config, pathlib.Path("config.json")))
    same = CausalLM(**with_attention(arguments, "multi_head", settings, blocks))
    theirs = [same.attention_templates[i % len(same.attention_templates)].layer for i in range(same.num_layers)]
    expected, received = _facts(same, theirs), _facts(model, attentions)
    if kind == "gpt2":  # of models without biases they are 0
        received |= dict.fromkeys([name for name in received if name.endswith((".center", ".use_bias"))], True)
    for name in expected | received:
        if expected.get(name) != received.get(name):
            refuse(f"{name}={expected.get(name)!r} as {kind}", f"{name}={received.get(name)!r}")


def _facts(model, attentions):
    """Returns what decides the outputs of a model, by name."""
    names = ("normalization", "tie_output", "output_bias", "embedding_scale", "logits_soft_cap")
    facts = {name: getattr(model, name) for name in names}
    if facts["embedding_scale"] == 1:
        facts["embedding_scale"] = None
    facts["positions"] = type(model.templates["positions"].layer).__name__
    for name in ("norm", "feed_forward"):
        facts |= _settings(name, model.templates[name].layer)
    for i, (layer, positions) in enumerate(zip(attentions, _positions(model), strict=True)):
        settings = _settings(f"block_{i}.attention", layer)
        settings[f"block_{i}.attention.num_key_value_heads"] = getattr(layer, "num_key_value_heads", layer.num_heads)
        settings |= {f"block_{i}.attention.{name}": getattr(layer, name) for name in ("scale", "value_dim")}
        settings[f"block_{i}.attention.qk_norm"] = 1e-6 if layer.qk_norm is True else layer.qk_norm
        facts |= settings | _settings(f"block_{i}.relative_positions", positions)
        del facts[f"block_{i}.attention"]  # grouped queries or all
    return facts


def _settings(owner, layer):
    config = {} if layer is None else layer.get_config()
    config = {name: x for name, x in config.items() if name not in HARMLESS and not name.endswith(ENDS)}
    return {owner: type(layer).__name__} | {f"{owner}.{name}": x for name, x in config.items()}
