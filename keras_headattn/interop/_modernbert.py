"""ModernBERT's configuration and tensors, as Hugging Face has them."""

import re

import numpy as np

from keras_headattn.interop._configs import Config
from keras_headattn.interop._copying import Names
from keras_headattn.interop._plain import activation_there, check_plain, plain_parts, refuse, tensors_of
from keras_headattn.interop._sizes import check_sizes
from keras_headattn.interop._tables import HEADS, MODERNBERT

# Keys that change training or speed alone, or nothing at all.
PASSED_OVER = """
    classifier_pooling deterministic_flash_attn initializer_cutoff_factor layer_norm_eps max_position_embeddings
    mlp_dropout reference_compile repad_logits_with_grad sparse_pred_ignore_index sparse_prediction
""".split()
BIASES = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")
FULL, SLIDING = "full_attention", "sliding_attention"
POOLINGS = {"cls": "first", "mean": "mean"}
# Parts of tensors that hold several projections.
PARTS = {"attn.Wqkv": ("attn.query", "attn.key", "attn.value"), "mlp.Wi": ("mlp.inner", "mlp.gate")}


def modernbert_arguments(config):
    """Returns the arguments of `ModernBert`."""
    for key in PASSED_OVER:
        config.get(key)
    biases = {key: config.flag(key, False) for key in BIASES}
    if len(set(biases.values())) > 1 or not config.flag("decoder_bias", True):
        raise ValueError(
            f"{', '.join(BIASES)} must be the same, and `decoder_bias` True. Received: {biases} in {config.path}"
        )
    if config.activation("classifier_activation", "gelu") != "gelu":
        raise ValueError(
            f"`classifier_activation` must be 'gelu'. Received: {config['classifier_activation']!r} in {config.path}"
        )
    size = config.integer("vocab_size", least=1)
    num_layers = config.integer("num_hidden_layers", least=1)
    bases = _bases(config)
    return dict(
        vocabulary_size=size,
        hidden_dim=config.integer("hidden_size", least=1),
        intermediate_dim=config.integer("intermediate_size", least=1),
        num_layers=num_layers,
        num_heads=config.integer("num_attention_heads", least=1),
        pad_id=config.integer("pad_token_id", 50283, most=size - 1),
        activation=config.activation("hidden_activation", "gelu"),
        norm_epsilon=config.number("norm_eps", 1e-5),
        dropout=config.number("embedding_dropout", 0.0, below=1),
        attention_dropout=config.number("attention_dropout", 0.0, below=1),
        initializer_range=config.number("initializer_range", 0.02),
        max_wavelength=bases[FULL],
        local_max_wavelength=bases[SLIDING],
        sliding_window=config.integer("local_attention", 128, least=2) // 2 + 1,  # theirs is of both sides
        global_every=_global_every(config, num_layers),
        use_bias=biases["norm_bias"],
    )


def _bases(config):
    """Returns the base of the rotary frequencies by kind of layer."""
    bases = {FULL: config.number("global_rope_theta", 160_000.0), SLIDING: config.number("local_rope_theta", 10_000.0)}
    parameters = config.get("rope_parameters", {})
    for kind, values in parameters.items() if isinstance(parameters, dict) else [(None, parameters)]:
        if values is None:
            continue
        is_known = kind in bases and isinstance(values, dict) and not set(values) - {"rope_type", "rope_theta"}
        if not is_known or values.get("rope_type") != "default":
            raise ValueError(
                f"`rope_parameters` must be of {FULL} and {SLIDING}, each of rope_type 'default' with a rope_theta. "
                f"Received: {parameters} in {config.path}"
            )
        bases[kind] = Config(values, config.path).number("rope_theta", bases[kind])
    return bases


def _global_every(config, num_layers):
    """Returns the distance of layers without a window."""
    every, kinds = config.integer("global_attn_every_n_layers", 3, least=1), config.get("layer_types")
    if kinds is None:
        return every
    listed = kinds if isinstance(kinds, list) else ()
    every = next((i for i, kind in enumerate(listed) if i and kind == FULL), num_layers)
    if kinds != [SLIDING if i % every else FULL for i in range(num_layers)]:
        raise ValueError(
            f"`layer_types` must have {FULL} first and at equal distances, else {SLIDING}. "
            f"Received: {kinds} in {config.path}"
        )
    return every


def split_projections(tensors):
    """Splits tensors of queries, keys and values, and of the inner layer and its gate, into one of each."""
    result = {}
    for name, tensor in tensors.items():
        whole = re.search(r"\.(attn\.Wqkv|mlp\.Wi)\.", name)
        parts = PARTS[whole[1]] if whole else ()
        if not parts or len(tensor) % len(parts):
            result[name] = tensor
            continue
        step = len(tensor) // len(parts)
        for i, part in enumerate(parts):
            result[name.replace(whole[1], part)] = tensor[i * step : (i + 1) * step]
    return result


def check_modernbert_sizes(arguments, tensors):
    width = arguments["hidden_dim"]
    shapes = {
        "embeddings.tok_embeddings.weight": (arguments["vocabulary_size"], width),
        "layers.0.attn.query.weight": (width, width),
        "layers.0.mlp.inner.weight": (arguments["intermediate_dim"], width),
    }
    check_sizes(tensors, shapes, {"layers.{}.attn.query.weight": arguments["num_layers"]})


def of_modernbert(model, encoder, head):
    """Returns the configuration and tensors of a `ModernBert` and its head, a class or `None`."""
    _check_parts(encoder)
    if getattr(model, "head_dim", None) or getattr(model, "kind", "modernbert") != "modernbert":
        refuse("only the head of modernbert", f"head_dim={getattr(model, 'head_dim', None)}, kind={model.kind!r}")
    attentions, weights = plain_parts(model)
    passed_over = ("sliding_window", "relative_positions")
    check_plain(attentions.values(), encoder.hidden_dim, encoder.use_bias, passed_over=passed_over)
    tensors = join_projections(tensors_of(weights, Names(MODERNBERT.table | HEADS.get(("modernbert", head), {}))))
    if head is not None:
        parts = ("embeddings.", "layers.", "final_norm.")
        tensors = {f"model.{name}" if name.startswith(parts) else name: x for name, x in tensors.items()}
    window = encoder.sliding_window
    config = dict(
        model_type="modernbert",
        vocab_size=encoder.vocabulary_size,
        hidden_size=encoder.hidden_dim,
        intermediate_size=encoder.intermediate_dim,
        num_hidden_layers=encoder.num_layers,
        num_attention_heads=encoder.blocks[0].attention.num_heads,
        pad_token_id=encoder.pad_id,
        hidden_activation=activation_there(encoder.activation),
        norm_eps=encoder.norm_epsilon,
        embedding_dropout=encoder.dropout,
        attention_dropout=encoder.blocks[0].attention.dropout,
        initializer_range=encoder.initializer_range,
        local_attention=128 if window is None else 2 * window - 2,
        global_attn_every_n_layers=1 if window is None else encoder.global_every,
        global_rope_theta=encoder.max_wavelength,
        local_rope_theta=encoder.local_max_wavelength,
        **dict.fromkeys(BIASES, encoder.use_bias),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),  # the tokenizer's
    )
    if head == "EncoderClassifier":
        config["classifier_pooling"] = next(theirs for theirs, ours in POOLINGS.items() if ours == model.pooling)
    return config, tensors


def _check_parts(encoder):
    """Refuses what a ModernBERT has not."""
    if encoder.sliding_window == 1:
        refuse("windows of 2 at least", "sliding_window=1")
    for index, block in enumerate(encoder.blocks):
        is_local = encoder.sliding_window is not None and index % encoder.global_every > 0
        if block.attention.sliding_window != (encoder.sliding_window if is_local else None):
            refuse("only the windows of the model", f"sliding_window={block.attention.sliding_window} in {block.name}")


def join_projections(tensors):
    """Joins what `split_projections` splits."""
    result = dict(tensors)
    for whole, parts in PARTS.items():
        for name in tensors:
            if f".{parts[0]}." in name:
                joined = [result.pop(name.replace(parts[0], part)) for part in parts]
                result[name.replace(parts[0], whole)] = np.concatenate(joined)
    return result
