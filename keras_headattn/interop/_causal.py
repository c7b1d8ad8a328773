"""Decoder-only language models, as Hugging Face has them."""

import dataclasses
import functools
import re

import numpy as np
from keras import layers

from keras_headattn.interop._configs import Config
from keras_headattn.interop._copying import Names, copy_weights, misfits, weights_by_name
from keras_headattn.interop._generation import suppressed_ids
from keras_headattn.interop._sizes import check_sizes
from keras_headattn.interop._start import SAME, check_start
from keras_headattn.interop._tables import GEMMA, GPT2, GPT_NEOX, LLAMA
from keras_headattn.layers import ATTENTIONS, FeedForward, GroupedQueryAttention
from keras_headattn.layers._template import Template
from keras_headattn.models import CausalLM
from keras_headattn.positions import Llama3Positions, RotaryPositions, YarnPositions


@dataclasses.dataclass(frozen=True)
class Layout:
    """A model type: its class, names of tensors and their prefix, own names of settings, and defaults of settings."""

    architecture: str
    names: Names
    prefix: str = "model"
    keys: dict = dataclasses.field(default_factory=lambda: {"norm_eps": "rms_norm_eps"})
    tied: bool = False
    theta: float = 10_000.0

    def key(self, name):
        return self.keys.get(name, name)

    @property
    def is_gated(self):
        return self.names in (LLAMA, GEMMA)

    @property
    def output(self):
        return self.names.table["output_projection"] + ".weight"


_GPT2_KEYS = dict(
    hidden_size="n_embd",
    num_hidden_layers="n_layer",
    num_attention_heads="n_head",
    intermediate_size="n_inner",
    max_position_embeddings="n_positions",
    norm_eps="layer_norm_epsilon",
    hidden_act="activation_function",
    hidden_dropout="resid_pdrop",
    attention_dropout="attn_pdrop",
)
_GEMMA_KEYS = dict(norm_eps="rms_norm_eps", hidden_act="hidden_activation")
LAYOUTS = {
    "gpt2": Layout("GPT2LMHeadModel", GPT2, "transformer", _GPT2_KEYS, tied=True),
    "llama": Layout("LlamaForCausalLM", LLAMA),
    "mistral": Layout("MistralForCausalLM", LLAMA),
    "qwen2": Layout("Qwen2ForCausalLM", LLAMA),
    "qwen3": Layout("Qwen3ForCausalLM", LLAMA),
    "smollm3": Layout("SmolLM3ForCausalLM", LLAMA, tied=True, theta=2_000_000.0),
    "gemma2": Layout("Gemma2ForCausalLM", GEMMA, keys=_GEMMA_KEYS, tied=True),
    "gemma3_text": Layout("Gemma3ForCausalLM", GEMMA, keys=_GEMMA_KEYS, tied=True, theta=1_000_000.0),
    "gpt_neox": Layout("GPTNeoXForCausalLM", GPT_NEOX, "gpt_neox", {"norm_eps": "layer_norm_eps"}),
}
# Keys that change neither outputs nor shapes, or that other keys make superfluous.
KNOWN = """
    cache_implementation embd_pdrop is_llama_config max_window_layers n_ctx pad_token_id pretraining_tp sliding_window
    summary_proj_to_labels transformers.js_config
""".split()
FULL, SLIDING = "full_attention", "sliding_attention"
PARTS = "query", "key", "value"


def causal_arguments(config):
    """Returns the arguments of `CausalLM`, those of its attention, and by block the window and positions."""
    kind = config["model_type"]
    layout = LAYOUTS[kind]
    gated, gemma = layout.is_gated, layout.names is GEMMA
    width = config.integer(layout.key("hidden_size"), least=1)
    epsilon = config.number(layout.key("norm_eps"), 1e-6 if gated else 1e-5)
    default = ("gelu_new" if kind == "gpt2" else "gelu") if not gated else "gelu_pytorch_tanh" if gemma else "silu"
    activation = config.activation(layout.key("hidden_act"), default)
    arguments = dict(
        vocabulary_size=config.integer("vocab_size", least=1),
        num_layers=config.integer(layout.key("num_hidden_layers"), least=1),
        hidden_dim=width,
        intermediate_dim=config.integer(layout.key("intermediate_size"), 4 * width if kind == "gpt2" else None, 1),
        num_heads=config.integer(layout.key("num_attention_heads"), least=1),
        norm=layers.RMSNormalization(epsilon=epsilon) if gated else layers.LayerNormalization(epsilon=epsilon),
        normalization="sandwich" if gemma else "pre",
        feed_forward=FeedForward(
            activation=activation, gated=gated, use_bias=config.flag("mlp_bias", False) if gated else True
        ),
        max_length=config.integer(layout.key("max_position_embeddings"), 2048, least=1),
        tie_output=config.flag("tie_word_embeddings", layout.tied),
        dropout=0.0 if gated else config.number(layout.key("hidden_dropout"), 0.1 * (kind == "gpt2"), below=1),
    )
    if kind == "gpt_neox" and config.flag("use_parallel_residual", True):
        arguments["normalization"] = "parallel"
    if gemma:
        config.get("hidden_act")  # an old name, not read there either
        arguments["embedding_scale"] = width**0.5
        arguments["logits_soft_cap"] = _cap(config, "final_logit_softcapping", 30.0 * (kind == "gemma2"))
    if kind == "gpt2":
        arguments["positions"] = "learned"
    return arguments, _attention_arguments(kind, config, arguments, epsilon), _blocks(kind, config, arguments)


def _cap(config, key, default):
    """Returns a soft cap, `None` without one."""
    return None if key in config.nulls else config.number(key, default) or None


def _attention_arguments(kind, config, arguments, epsilon):
    layout, heads = LAYOUTS[kind], arguments["num_heads"]
    settings = dict(
        key_dim=arguments["hidden_dim"] // heads,
        use_bias=True if kind == "gpt2" else config.flag("attention_bias", kind == "gpt_neox"),
        dropout=config.number(layout.key("attention_dropout"), 0.1 * (kind == "gpt2"), below=1),
        num_key_value_heads=heads,
    )
    if layout.is_gated:
        default = 8 if kind == "mistral" and "num_key_value_heads" not in config.nulls else heads
        settings["key_dim"] = config.integer("head_dim", settings["key_dim"], least=1)
        settings["num_key_value_heads"] = config.integer("num_key_value_heads", default, least=1)
        if heads % settings["num_key_value_heads"]:
            raise ValueError(
                "`num_key_value_heads` must divide `num_attention_heads`. Received: num_key_value_heads="
                f"{settings['num_key_value_heads']} and num_attention_heads={heads} in {config.path}"
            )
    if kind == "gpt2" and not config.flag("scale_attn_weights", True):
        settings["scale"] = 1.0
    if kind == "qwen2":
        settings["use_bias"] = "inputs"
    if kind in ("qwen3", "gemma3_text"):
        settings["qk_norm"] = epsilon == 1e-6 or float(epsilon)
    if layout.names is GEMMA:
        settings["scale"] = config.integer("query_pre_attn_scalar", 256, least=1) ** -0.5
        settings["attn_logits_soft_cap"] = _cap(config, "attn_logit_softcapping", 50.0 * (kind == "gemma2"))
    return settings


def _blocks(kind, config, arguments):
    """Returns the window and the rotary positions of each block, `None` for none."""
    count = arguments["num_layers"]
    if kind == "gpt2":
        return [(None, None)] * count
    positions = {
        block: rotary_positions(settings, config.path, arguments["max_length"])
        for block, settings in _rotary_settings(kind, config).items()
    }
    rotated = [True] * count
    if kind == "smollm3":
        every = config.integer("no_rope_layer_interval", 4, least=1)
        rotated = config.get("no_rope_layers", [int((i + 1) % every > 0) for i in range(count)])
        if not isinstance(rotated, list) or len(rotated) != count or not {*map(bool, rotated)} == {*rotated}:
            raise ValueError(f"`no_rope_layers` must be {count} of 0 and 1. Received: {rotated!r} in {config.path}")
    window = _window(kind, config)
    types = config.get("layer_types", _layer_types(kind, config, window, rotated))
    if not isinstance(types, list) or len(types) != count or not {*types} <= {FULL, *[SLIDING] * (window is not None)}:
        raise ValueError(
            f"`layer_types` must be {count} of {FULL} and, with a `sliding_window`, {SLIDING}. "
            f"Received: {types!r} in {config.path}"
        )
    return [
        (window if block == SLIDING else None, positions[block] if is_rotated else None)
        for block, is_rotated in zip(types, rotated, strict=True)
    ]


def _window(kind, config):
    has_window = kind == "mistral" or LAYOUTS[kind].names is GEMMA
    if kind in ("qwen2", "qwen3", "smollm3"):
        has_window = config.flag("use_sliding_window", False)
    if not has_window or "sliding_window" in config.nulls:
        return None
    return config.integer("sliding_window", 4096, least=1)


def _layer_types(kind, config, window, rotated):
    """Returns the kinds of blocks of a configuration that does not list them."""
    count = len(rotated)
    pattern = config.integer("sliding_window_pattern", config.get("_sliding_window_pattern", 6), least=1)
    slides = {
        "mistral": lambda i: True,
        "qwen2": lambda i: i >= config.integer("max_window_layers", 28),
        "smollm3": lambda i: not rotated[i],
        "gemma2": lambda i: i % 2 == 0,
        "gemma3_text": lambda i: (i + 1) % pattern > 0,
    }
    does = slides.get("qwen2" if kind == "qwen3" else kind, lambda i: False)
    return [SLIDING if window is not None and does(i) else FULL for i in range(count)]


def _rotary_settings(kind, config):
    """Returns the rotary settings by kind of block, from both forms of a configuration."""
    is_neox = kind == "gpt_neox"
    old = {
        "rope_theta": config.get("rotary_emb_base" if is_neox else "rope_theta", LAYOUTS[kind].theta),
        "partial_rotary_factor": config.get("rotary_pct" if is_neox else "partial_rotary_factor", 0.25**is_neox),
    }
    local = config.get("rope_local_base_freq", 10_000.0) if kind == "gemma3_text" else None
    scaling, new = config.get("rope_scaling", {}), config.get("rope_parameters", {})
    for key, value in (("rope_scaling", scaling), ("rope_parameters", new)):
        if not isinstance(value, dict):
            raise ValueError(f"`{key}` must be a dictionary. Received: {key}={value!r} in {config.path}")
    by_kind = {block: old | scaling | (new.get(block) or {}) for block in (FULL, SLIDING)}
    if local is not None:
        by_kind[SLIDING] = old | {"rope_theta": local} | (new.get(SLIDING) or {})
    return by_kind if {*new} & {*by_kind} else {block: settings | new for block, settings in by_kind.items()}


def rotary_positions(settings, path, length):
    """Returns the positions of a dictionary of rotary settings."""
    settings = Config(settings, path)
    kind = settings.get("rope_type", settings.get("type", "default"))
    settings.get("type")
    base = dict(
        max_wavelength=settings.number("rope_theta", 10_000.0),
        rotated_share=settings.number("partial_rotary_factor", 1.0),
    )
    if kind == "default":
        made = RotaryPositions(**base)
    elif kind == "linear":
        made = RotaryPositions(**base, scaling_factor=settings["factor"])
    elif kind == "llama3":
        base["original_max_length"] = settings.integer("original_max_position_embeddings", length, least=1)
        bounds = {name: settings[name] for name in ("low_freq_factor", "high_freq_factor")}
        made = Llama3Positions(settings["factor"], **bounds, **base)
    elif kind == "yarn":
        made = _yarn(settings, length, base)
    else:
        raise ValueError(f"`rope_type` must be default, linear, llama3 or yarn. Received: {kind!r} in {path}")
    settings.check()
    return made


def _yarn(settings, length, base):
    original = settings.integer("original_max_position_embeddings", length, least=1)
    scales = {name: settings.get(name, 0) for name in ("mscale", "mscale_all_dim")}
    made = YarnPositions(
        settings["factor"],
        original,
        settings.get("beta_fast", 32.0),
        settings.get("beta_slow", 1.0),
        settings.flag("truncate", True),
        **(scales if all(scales.values()) else {}),
        **base,
    )
    factor = settings.get("attention_factor", made.magnitude)
    if factor != made.magnitude:
        raise ValueError(f"`attention_factor` must be {made.magnitude}. Received: {factor!r} in {settings.path}")
    return made


# Tensors


def split(kind, tensors, heads):
    """Returns tensors without prefix, with kernels of PyTorch's layout, and one for each of query, key and value."""
    layout, result = LAYOUTS[kind], {}
    for name, tensor in tensors.items():
        name = re.sub(rf"^{layout.prefix}\.", "", name)
        if kind == "gpt2" and np.ndim(tensor) == 2 and re.search(r"\.c_(attn|proj|fc)\.weight$", name):
            tensor = tensor.T
        if layout.names is GEMMA and name.endswith("norm.weight"):
            tensor = np.asarray(tensor, "float32") + 1
        whole = re.search(r"\.attn\.c_attn\.|\.attention\.query_key_value\.", name)
        groups = heads if kind == "gpt_neox" else 1
        if whole is None or len(tensor) % (3 * groups):
            result[name] = tensor
            continue
        rows = tensor.reshape(groups, 3, -1, *tensor.shape[1:])
        for i, part in enumerate(PARTS):
            owner = whole[0].replace("c_attn", part).replace("query_key_value", part)
            result[name.replace(whole[0], owner)] = rows[:, i].reshape(-1, *tensor.shape[1:])
    return result


def join(kind, tensors, heads):
    """Joins what `split` splits, and adds the prefix."""
    layout, result = LAYOUTS[kind], dict(tensors)
    whole, groups = {"gpt2": ("c_attn", 1), "gpt_neox": ("query_key_value", heads)}.get(kind, (None, 1))
    for name in tensors if whole else ():
        if match := re.search(r"\.(attn|attention)\.query\.", name):
            parts = [result.pop(name.replace(".query.", f".{part}.")) for part in PARTS]
            rows = [part.reshape(groups, 1, -1, *part.shape[1:]) for part in parts]
            joined = np.concatenate(rows, axis=1).reshape(-1, *parts[0].shape[1:])
            result[name.replace(match[0], f".{match[1]}.{whole}.")] = joined
    if kind == "gpt2":
        is_kernel = re.compile(r"\.c_(attn|proj|fc)\.weight$")
        result = {name: np.ascontiguousarray(x.T) if is_kernel.search(name) else x for name, x in result.items()}
    if layout.names is GEMMA:
        result = {name: x - 1 if name.endswith("norm.weight") else x for name, x in result.items()}
    return {name if name == layout.output else f"{layout.prefix}.{name}": x for name, x in result.items()}


def _check_sizes(kind, arguments, settings, tensors):
    names, width = LAYOUTS[kind].names, arguments["hidden_dim"]
    shapes = {
        "token_embedding/embeddings": (arguments["vocabulary_size"], width),
        "block_0/attention/query/kernel": (arguments["num_heads"] * settings["key_dim"], width),
        "block_0/attention/value/kernel": (settings["num_key_value_heads"] * settings["key_dim"], width),
        "block_0/feed_forward/inner/kernel": (arguments["intermediate_dim"], width),
    }
    if not arguments["tie_output"]:
        shapes["output_projection/kernel"] = arguments["vocabulary_size"], width
    if kind == "gpt2":
        shapes["position_embedding/embeddings"] = arguments["max_length"], width
    norm = names.table["block_{i}/attention_norm"].replace("{i}", "{}") + ".weight"
    check_sizes(tensors, {names.find(name): x for name, x in shapes.items()}, {norm: arguments["num_layers"]})


def _without_tied_output(layout, tensors, path):
    """Drops the output layer of a tied checkpoint, which must be the embedding."""
    output, embedding = layout.output, layout.names.table["token_embedding"] + ".weight"
    if output in tensors and not np.array_equal(tensors[output], tensors.get(embedding)):
        raise ValueError(
            "The output layer must be the embedding, or `tie_word_embeddings` must be false in config.json. "
            f"Received: another {output} in {path}"
        )
    return {name: x for name, x in tensors.items() if name != output}


# Models


def make_causal(kind, config, path, tensors, attention, head, ignore, overrides, start=None):
    """Returns a `CausalLM`, names and tensors, and for another attention a check of its start."""
    if start not in (None, "same"):
        raise ValueError(f"`start` must be None or 'same'. Received: start={start!r}")
    layout = LAYOUTS[kind]
    arguments, settings, blocks = causal_arguments(config)
    arguments["suppress"] = suppressed_ids(config)
    config.check(ignore, KNOWN)
    tensors = split(kind, tensors, arguments["num_heads"])
    if arguments["tie_output"]:
        tensors = _without_tied_output(layout, tensors, path)
    _check_sizes(kind, arguments, settings, tensors)
    attention_arguments = dict(overrides.pop("attention_arguments", None) or {})
    if "activation" in overrides:
        feed_forward = arguments["feed_forward"].get_config() | {"activation": overrides.pop("activation")}
        arguments["feed_forward"] = FeedForward.from_config(feed_forward)
    if "dropout" in overrides:
        settings["dropout"] = overrides["dropout"]
    if "relative_positions" in overrides and any(positions for _, positions in blocks):
        other = overrides.pop("relative_positions")
        blocks = [(window, positions and other) for window, positions in blocks]
    plain = with_attention(arguments | overrides, "multi_head", settings, blocks)
    if isinstance(attention, str) and attention == "multi_head" and not attention_arguments:
        return CausalLM(**plain), layout.names, tensors
    get = attention_arguments.get
    blocks = [(get("sliding_window", window), get("relative_positions", positions)) for window, positions in blocks]
    model = CausalLM(**with_attention(arguments | overrides, attention, settings | attention_arguments, blocks, start))
    names, fitting = _fitting(model, layout.names, tensors, settings["num_key_value_heads"])
    count = min(max(2, len(attention) if isinstance(attention, list | tuple) else 1), model.num_layers)
    return model, names, fitting, functools.partial(_check_start, model, count, plain, layout.names, tensors, start)


def with_attention(arguments, attention, settings, blocks, start=None):
    """Returns arguments of `CausalLM` with one attention, or a list of them that repeats over the blocks."""
    period = next(n for n in range(1, len(blocks) + 1) if all(x == blocks[i % n] for i, x in enumerate(blocks)))
    listed = [*attention] if isinstance(attention, list | tuple) else [attention]
    made = []
    for i in range(period if len(listed) == 1 else len(blocks)):
        identifier, (window, positions) = listed[i % len(listed)], blocks[i]
        if (
            isinstance(identifier, str)
            and identifier == "multi_head"
            and settings["num_key_value_heads"] < arguments["num_heads"]
        ):
            identifier = "grouped_query"
        sizes = arguments["num_heads"], arguments["hidden_dim"]
        template = Template.of_attention("attention", identifier, *sizes, **_arguments_of(identifier, settings, start))
        of_block = {"sliding_window": window, "relative_positions": positions if period > 1 else None}
        made.append(template.make(of_block))
    positions = blocks[0][1] if period == 1 else None
    return {"positions": None, "relative_positions": positions, **arguments, "attention": made}


def _arguments_of(attention, settings, start):
    """Returns the arguments of attention given by a name or a class."""
    cls = ATTENTIONS.get(attention) if isinstance(attention, str) else attention
    cls = cls.func if isinstance(cls, functools.partial) else cls
    is_grouped = isinstance(cls, type) and issubclass(cls, GroupedQueryAttention)
    same = SAME.get(cls, {}) if start == "same" else {}
    return same | {name: x for name, x in settings.items() if is_grouped or name != "num_key_value_heads"}


def _fitting(model, names, tensors, groups):
    """Returns names and tensors for a model with other attention than the checkpoint's.

    Keys and values that heads share are repeated; weights of other shapes keep their initial values.
    """
    tensors, weights = dict(tensors), weights_by_name(model)
    for block in model.blocks:
        layer = block.attention
        for part in ("key", "value"):
            count, _ = layer.projections.get(part, (groups, None))
            for leaf in ("kernel", "bias") if count != groups and layer.num_heads % groups == 0 else ():
                name = names.find(f"{block.name}/attention/{part}/{leaf}")
                if name in tensors:
                    tensors[name] = _repeated(tensors[name], groups, layer.num_heads // groups)
    skipped = [name for name in misfits(weights, tensors, names) if "/attention/" in name]
    attention = re.escape(names.table["block_{i}/attention/{p}"].partition("{p")[0]).replace(r"\{i\}", r"\d+")
    return dataclasses.replace(names, unused=(*names.unused, attention + ".*"), skipped=tuple(skipped)), tensors


def _repeated(tensor, groups, count):
    """Repeats the rows of each group, `(groups * d, ...)`."""
    if len(tensor) % groups:
        return tensor
    rows = np.repeat(tensor.reshape(groups, -1, *tensor.shape[1:]), count, axis=0)
    return rows.reshape(-1, *tensor.shape[1:])


def _check_start(model, count, plain, names, tensors, start):
    """Compares the first blocks with the checkpoint's own, on random input."""
    few = dict(num_layers=count, vocabulary_size=1, tie_output=True, suppress=())
    reference, embedding = CausalLM(**plain | few), names.table["token_embedding"] + ".weight"
    copy_weights(reference, tensors | {embedding: tensors[embedding][:1]}, names, strict=False)
    check_start(model.blocks[:count], reference.blocks, model.hidden_dim, start)
