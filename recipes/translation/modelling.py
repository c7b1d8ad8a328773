"""The model that settings name."""

from keras_headattn.data import source_lengths
from keras_headattn.models import Transformer
from keras_headattn.positions import LearnedPositions, RelativePositions
from recipes.engine.heads import make_attention, make_head_regularizer, own_number_of_heads


def make_transformer(config, source_size, target_size):
    """The Transformer for vocabularies of these sizes."""
    shape = config.shape
    return Transformer(
        source_size,
        None if config.shared_vocabulary else target_size,
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


def make_attentions(config):
    """The templates of attention, as arguments of `Transformer`, one for each role."""
    positions = config.relative_positions and RelativePositions(config.relative_positions)
    name = config.attention
    # A synthesizer knows a key by its place alone, which says nothing of a sentence in another language.
    across = "multi_head" if name == "synthesizer" else name
    return dict(
        attention=_make(config, "attention", name, relative_positions=positions),
        decoder_attention=_make(
            config, "decoder_attention", config.decoder_attention or name, relative_positions=positions
        ),
        cross_attention=_make(config, "cross_attention", config.cross_attention or across),
    )


def _make(config, role, name, **own):
    """A template: the arguments of `--attention-arguments` count, under its own, if it is the same attention."""
    width, heads = config.shape["hidden_dim"], config.num_heads or own_number_of_heads(name)
    heads = heads or config.shape["num_heads"]
    shared = config.attention_arguments if name == config.attention else {}
    if role == "cross_attention":  # two texts have no distances
        shared = {key: value for key, value in shared.items() if key != "sliding_window"}
    return make_attention(
        name,
        shared | getattr(config, f"{role}_arguments"),
        width,
        heads,
        option=f"{role}_arguments",
        value_dim=max(1, width // heads),
        dropout=config.attention_dropout,
        head_regularizer=make_head_regularizer(config),
        max_length=_positions(config),
        **own,
    )


def _positions(config):
    """How many positions a model needs whose positions are learned: sources are padded to these lengths."""
    return source_lengths(config.max_length)[-1]
