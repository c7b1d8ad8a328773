"""The model, the optimizer and the loss a configuration names."""

import functools

import keras

from keras_headattn import layers
from keras_headattn.data import source_lengths
from keras_headattn.layers import DisentangledMaskAttention, EvolvingAttention, MultiHeadAttention, SynthesizerAttention
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import Transformer
from keras_headattn.optimizers import InverseSquareRoot
from keras_headattn.positions import LearnedPositions, RelativePositions
from keras_headattn.training import Model
from recipes.engine.heads import make_head_regularizer, repel


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
        normalize_first=config.norm_first,
        positions=LearnedPositions(_positions(config)) if config.learned_positions else "sinusoidal",
        tie_output=config.tie_output,
        seed=config.seed,
    )


def make_attentions(config):
    """The templates of attention, as arguments of `Transformer`: one for each role where they differ."""
    width, heads = config.shape["hidden_dim"], config.shape["num_heads"]
    if config.key_dim is None and width % heads:
        raise ValueError(
            "The width must be a multiple of the number of heads, or --key-dim be given. "
            f"Received: hidden_dim={width}, num_heads={heads}"
        )
    cross = dict(
        num_heads=heads,
        key_dim=config.key_dim or width // heads,
        value_dim=max(1, width // heads),
        dropout=config.attention_dropout,
        head_regularizer=make_head_regularizer(config),
    )
    own = dict(cross)
    if config.relative_positions:
        own["relative_positions"] = RelativePositions(config.relative_positions)
    if config.attention == "evolving":
        return _evolving(config, own, cross)
    if config.attention == "disentangled_mask":
        return _disentangled(config, own, cross)
    if config.attention == "synthesizer":
        # It knows a key by its position alone, which says nothing of a sentence in another language.
        synthesizer = SynthesizerAttention(**own, max_length=_positions(config), mixture=config.synthesis)
        return dict(attention=synthesizer, cross_attention=MultiHeadAttention(**cross))
    name, options = config.attention, {}
    if name == "interacting_pairwise":
        name, options = "interacting", dict(interaction="pairwise")
    return dict(attention=layers.get(name, **own, **options), cross_attention=layers.get(name, **cross, **options))


def _evolving(config, own, cross):
    """Skip connections in the encoder alone (Wang et al. 2021, section 4.3)."""

    def make(role, alpha, arguments):
        beta = config.map_beta if role in config.map_roles else 0
        return EvolvingAttention(**arguments, role=role, alpha=alpha, beta=beta, kernel_size=config.map_kernel)

    return dict(
        attention=make("encoder", config.map_alpha, own),
        decoder_attention=make("decoder", 0, own),
        cross_attention=make("cross", 0, cross),
    )


def _disentangled(config, own, cross):
    make = functools.partial(
        DisentangledMaskAttention,
        num_clusters=config.num_clusters,
        alpha=config.mask_share,
        shared_information=config.shared_information,
        kept_information=config.kept_information,
        divergence=config.divergence,
        diversity=config.cluster_diversity,
        centre_gradient=config.centre_gradient,
    )
    return dict(attention=make(**own), cross_attention=make(**cross))


def _positions(config):
    """How many positions a model needs whose positions are learned: sources are padded to these lengths."""
    return source_lengths(config.max_length)[-1]


def make_trainer(config, transformer, jit_compile):
    """A compiled `training.Model` around the Transformer. Call it under the strategy's scope."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    trainer = Model(inputs, transformer(inputs), name="trainer")
    trainer.compile(
        optimizer=make_optimizer(config),
        loss=LabelSmoothedCrossentropy(config.label_smoothing),
        weighted_metrics=[_accuracy(config)],
        jit_compile=jit_compile,
        steps_per_execution=config.steps_per_execution,
    )
    return trainer


def make_optimizer(config):
    """Adam, and around it what makes heads repulsive."""
    adam = keras.optimizers.Adam(
        InverseSquareRoot(config.learning_rate, config.warmup_steps),
        beta_1=0.9,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        global_clipnorm=config.clipnorm,
        gradient_accumulation_steps=config.accumulation if config.accumulation > 1 else None,
    )
    return repel(
        config,
        adam,
        projections=config.repulsive_projections,
        roles=config.repulsive_roles,
        layers=config.repulsive_layers,
    )


def _accuracy(config):
    if config.precision != "float32":
        return keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    # The same number from fewer passes over the logits, but that it counts ties, which 16 bits make, as hits.
    return keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="accuracy")
