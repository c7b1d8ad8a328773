"""The model that settings name."""

import dataclasses

from keras_headattn.data import source_lengths
from keras_headattn.interop import from_pretrained, read_config
from keras_headattn.models import Transformer
from keras_headattn.positions import LearnedPositions, RelativePositions
from recipes.engine.heads import make_attention


def make_transformer(config, source_size, target_size):
    """The Transformer for vocabularies of these sizes; that of a checkpoint has its weights."""
    if config.pretrained:
        return _make_pretrained(config)
    shape = config.shape
    return Transformer(
        source_size,
        None if config.one_vocabulary else target_size,
        num_layers=shape["num_layers"],
        hidden_dim=shape["hidden_dim"],
        intermediate_dim=shape["intermediate_dim"],
        **make_attentions(config),
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        normalize_first=config.normalize_first,
        positions=LearnedPositions(_positions(config)) if config.learned_positions else "sinusoidal",
        tie_output=config.tie_output,
        seed=config.seed,
    )


def _make_pretrained(config):
    model, report = from_pretrained(
        config.pretrained,
        **make_attentions(config),
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        seed=config.seed,
        return_report=True,
    )
    print(report)
    return model


def make_attentions(config):
    """The templates of attention, as arguments of `Transformer`, one for each role."""
    positions = config.relative_positions and RelativePositions(config.relative_positions)
    # A synthesizer knows a key by its place alone, which says nothing of a sentence in another language.
    across = "multi_head" if config.attention == "synthesizer" else None
    # Two texts have no distances.
    near = {name: value for name, value in config.attention_arguments.items() if name != "sliding_window"}
    return dict(
        attention=_make(config, "attention", relative_positions=positions),
        decoder_attention=_make(config, "decoder_attention", relative_positions=positions),
        cross_attention=_make(dataclasses.replace(config, attention_arguments=near), "cross_attention", name=across),
    )


def _make(config, role, **own):
    shape = config.shape
    if config.pretrained:
        sizes = read_config(config.pretrained)
        shape = {"hidden_dim": sizes["d_model"], "num_heads": sizes["encoder_attention_heads"]}
    own |= dict(dropout=config.attention_dropout, max_length=_positions(config))
    return make_attention(config, shape["hidden_dim"], shape["num_heads"], role, **own)


def _positions(config):
    """How many positions a model needs whose positions are learned: sources are padded to these lengths."""
    return source_lengths(config.max_length)[-1]
