"""The network of a run: raw series in, classes or numbers out."""

import dataclasses

import keras
from keras import ops

from keras_headattn.layers import ATTENTIONS, augmented_widths
from keras_headattn.models import DCTransformer
from recipes.engine.config import arguments_of, passing_on
from recipes.engine.modelling import make_attention as make_attention_layer

HEADS = 8


def make_attention(config):
    """Makes the attention template; `None` for none."""
    if config.attention == "none":
        return None
    ratios = [config.model_argument(name) for name in ("key_ratio", "value_ratio")]
    heads = config.attention_arguments.get("num_heads") or config.num_heads or HEADS
    widths = augmented_widths(config.model_argument("hidden_dim"), heads, *ratios, min_key_dim=1)
    widths = {name: width for name, width in widths.items() if name in arguments_of(ATTENTIONS[config.attention])}
    settings = dataclasses.replace(config, attention_arguments=widths | config.attention_arguments)
    return make_attention_layer(settings, heads, heads)


def make_network(config, notes):
    """Makes the network from series `(B, n, channels)`, NaN where values are missing or padded.

    `notes` has `"max_length"`, statistics `"mean"` and `"deviation"` of channels, `"classes"`, or for numbers those of
    the target, `"target_mean"` and `"target_deviation"`.
    """
    inputs = keras.Input((None, len(notes["mean"])), name="series", dtype="float32")
    series = inputs[:, : notes["max_length"]]
    known = ops.logical_not(ops.isnan(series))
    # A step is real if it or a later one has a value.
    after = ops.flip(ops.cumsum(ops.flip(ops.cast(ops.any(known, axis=-1), "int32"), axis=1), axis=1), axis=1)
    mean, deviation = (ops.convert_to_tensor(notes[name], "float32") for name in ("mean", "deviation"))
    scaled = ops.where(known, (series - mean) / deviation, 0.0)
    with passing_on("model_arguments"):
        network = DCTransformer(
            len(notes.get("classes", ["number"])),
            notes["max_length"],
            attention=make_attention(config),
            seed=config.seed,
            name="network",
            **config.model_arguments,
        )
    outputs = network(scaled, mask=ops.greater(after, 0))
    if "classes" not in notes:
        scale = keras.layers.Rescaling(notes["target_deviation"], notes["target_mean"], dtype="float32", name="number")
        outputs = scale(outputs)
    return keras.Model(inputs, outputs, name="series_model")
