"""Checks and weights of models that other libraries can express."""

import numpy as np
from keras import ops

from keras_headattn.interop._configs import ACTIVATIONS
from keras_headattn.interop._copying import store, weights_by_name
from keras_headattn.layers import MultiHeadAttention, absorb
from keras_headattn.layers._lora import with_lora
from keras_headattn.positions import LearnedPositions, SinusoidalPositions

# Attention options that Hugging Face models cannot express.
PLAIN = (
    "sliding_window",
    "use_gate",
    "relative_positions",
    "qk_norm",
    "attn_logits_soft_cap",
    "use_sinks",
    "exclusive",
    "value_residual",
    "attention_axes",
)


def refuse(what, received):
    raise ValueError(f"The format has no equivalent of this model: it has {what}. Received: {received}")


def check_plain(attentions, width=None, use_bias=True, scale=None, types=(MultiHeadAttention,), passed_over=()):
    """Refuses layers other than plain multi-head attention; `use_bias=None` allows both."""
    for layer in attentions:
        if type(layer) not in types:
            refuse("only multi-head attention", f"{type(layer).__name__} in {layer.path}")
        config = layer.get_config()
        settings = {name: config[name] for name in PLAIN if config[name] and name not in passed_over}
        if layer.relative_positions is not None and scale == 1.0:  # T5's table is the model's
            settings.pop("relative_positions")
        biased = config["use_bias"]
        if (
            biased == "inputs"
            or use_bias not in (None, biased)
            or layer.value_dim != layer.key_dim
            or config["output_shape"]
        ):
            settings |= {name: config[name] for name in ("use_bias", "key_dim", "value_dim", "output_shape")}
        if layer.scale != (layer.key_dim**-0.5 if scale is None else scale):
            settings["scale"] = layer.scale
        if width is not None and layer.num_heads * layer.key_dim != width:
            settings |= {"num_heads": layer.num_heads, "key_dim": layer.key_dim}
        if settings:
            refuse(
                "no attention with such settings", ", ".join(f"{name}={value!r}" for name, value in settings.items())
            )


def check_normalization(model):
    """Refuses blocks of a `Transformer` that are neither pre-norm nor post-norm."""
    if model.normalization not in ("pre", "post"):
        refuse("pre-norm and post-norm blocks", f"normalization={model.normalization!r}")


def activation_there(activation):
    """Returns Hugging Face's name of an activation."""
    name = activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if name not in names:
        refuse(f"the activations {', '.join(names)}", f"activation={name}")
    return names[name]


def tensors_of(weights, names):
    """Returns weights by the format's names and in its layout."""
    result = {}
    for name, weight in weights.items():
        theirs = names.find(name)
        if theirs is None:
            refuse("no weight of this name", name)
        result[theirs] = store(name, weight, names.kernels)
    return result


def plain_parts(model, types=(MultiHeadAttention,)):
    """Returns the attention layers of a model, or of the encoder of a head, by path, and all weights by name, of NumPy.

    Layers that equal multi-head attention become it, unless they are of one of the `types`.
    """
    if with_lora(model):
        refuse("LoRA. Add it to the kernels by `layers.merge_lora(model)` first", model.name)
    encoder = getattr(model, "encoder", model)
    if not encoder.built:
        encoder.build()
    blocks = encoder.blocks if hasattr(encoder, "blocks") else (*encoder.encoder_blocks, *encoder.decoder_blocks)
    attentions = {f"{block.name}/{name}": layer for block in blocks for name, layer in block.attentions.items()}
    weights = {name: np.array(ops.convert_to_numpy(weight)) for name, weight in weights_by_name(model).items()}
    for path, layer in attentions.items():
        if type(layer) not in types:
            attentions[path] = plain = _absorbed(layer)
            plain_weights = weights_by_name(plain)
            absorbed = {name for name in weights if name.rpartition("/")[0] == path} - {
                f"{path}/{name}" for name in plain_weights
            }
            weights = {name: weight for name, weight in weights.items() if name not in absorbed}
            weights |= {
                f"{path}/{name}": np.array(ops.convert_to_numpy(weight))
                for name, weight in plain_weights.items()
                if f"{path}/{name}" in weights  # the table of T5's positions has another name, or is another layer's
            }
    return attentions, weights


def _absorbed(layer):
    try:
        return absorb(layer)
    except ValueError as error:
        reason = str(error).partition(" Received: ")[0]
        refuse(f"only multi-head attention. {reason.removesuffix('.')}", f"{type(layer).__name__} in {layer.path}")


def position_tables(model, length=1024):
    """Returns what a `Transformer` adds to the embeddings, `(n, D)` by name of the weight."""
    layer, shape = model.templates["positions"].layer, (1, length, model.hidden_dim)
    if not isinstance(layer, (LearnedPositions, SinusoidalPositions, type(None))):
        refuse("sinusoidal, learned or no positions", f"positions={layer!r}")
    if isinstance(layer, LearnedPositions):
        tables = [np.array(ops.convert_to_numpy(layer.embeddings)) for layer in model.positions]
    elif layer is None:
        tables = [np.zeros(shape[1:], "float32")] * 2
    else:
        exact = SinusoidalPositions(layer.endpoint, layer.first, dtype="float32")
        tables = [np.array(ops.convert_to_numpy(exact(np.zeros(shape, "float32"))))[0]] * 2
    return {f"{side}_positions/embeddings": table for side, table in zip(("source", "target"), tables, strict=True)}


def start_id(tokenizer):
    """Returns the id before a translation, as in `serving.Translator`."""
    return tokenizer.bos_id if tokenizer.bos_id >= 0 else tokenizer.pad_id


def tokens_of(tokenizer):
    return [tokenizer.id_to_token(index) for index in range(tokenizer.vocabulary_size)]


def check_tokenizers(model, source, target):
    """Refuses tokenizers that have not as many tokens as the model has embeddings."""
    sizes = model.source_vocabulary_size, model.target_vocabulary_size or model.source_vocabulary_size
    for side, tokenizer, size in zip(("source", "target"), (source, target), sizes, strict=True):
        if tokenizer.vocabulary_size != size:
            raise ValueError(
                f"`{side}_tokenizer` must have as many tokens as the model, {size}. "
                f"Received: {side}_tokenizer with {tokenizer.vocabulary_size}"
            )
