"""The model that settings name."""

import dataclasses

from keras_headattn.data import source_lengths
from keras_headattn.interop import from_pretrained, read_config
from keras_headattn.models import Transformer
from keras_headattn.positions import LearnedPositions
from recipes.engine.config import passing_on
from recipes.engine.modelling import make_attention
from recipes.translate.settings import OF_TRAINING

OF_DISTANCES = ("sliding_window", "relative_positions")


def make_transformer(config, source_size, target_size):
    """Returns the Transformer for vocabularies of these sizes; that of a checkpoint has its weights."""
    if config.pretrained:
        return _make_pretrained(config)
    arguments = config.shape | config.model_arguments
    if arguments.get("positions") == "learned":
        arguments["positions"] = LearnedPositions(_positions(config.max_length))
    del arguments["num_heads"]  # of the attention
    with passing_on("model_arguments"):
        return Transformer(
            source_size,
            None if config.one_vocabulary else target_size,
            **make_attentions(config),
            **arguments,
            seed=config.seed,
        )


def _make_pretrained(config):
    model, report = from_pretrained(
        config.pretrained,
        **make_attentions(config),
        **{name: config.model_argument(name) for name in OF_TRAINING},
        seed=config.seed,
        return_report=True,
    )
    print(report)
    return model


def make_attentions(config):
    """Returns the templates of attention, as arguments of `Transformer`, one for each role."""
    # A synthesizer sees only the positions of keys, which say nothing about a sentence in another language.
    across = "multi_head" if config.attention == "synthesizer" else None
    # There are no distances between two texts.
    near = {name: value for name, value in config.attention_arguments.items() if name not in OF_DISTANCES}
    return dict(
        attention=_make(config, "attention"),
        decoder_attention=_make(config, "decoder_attention"),
        cross_attention=_make(dataclasses.replace(config, attention_arguments=near), "cross_attention", name=across),
    )


def _make(config, role, **kwargs):
    shape = config.shape
    if config.pretrained:
        sizes = read_config(config.pretrained)
        shape = {"hidden_dim": sizes["d_model"], "num_heads": sizes["encoder_attention_heads"]}
    return make_attention(
        config, shape["hidden_dim"], shape["num_heads"], role, max_length=_positions(config.max_length), **kwargs
    )


def _positions(max_length):
    """Returns the number of positions that a model with learned ones needs: sources are padded to these lengths."""
    return source_lengths(max_length)[-1]
