"""The model, the optimizer and the loss a configuration names."""

import keras

from keras_headattn.layers import (
    InteractingHeadAttention,
    LuongAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
)
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import Transformer
from keras_headattn.optimizers import InverseSquareRoot
from keras_headattn.training import Model
from recipes.data.buckets import source_lengths


def make_transformer(config, source_size, target_size):
    """The Transformer for vocabularies of these sizes."""
    shape = config.shape
    return Transformer(
        source_size,
        None if config.shared_vocabulary else target_size,
        num_layers=shape["num_layers"],
        hidden_dim=shape["hidden_dim"],
        intermediate_dim=shape["intermediate_dim"],
        attention=make_attention(config),
        dropout=config.dropout,
        activation_dropout=config.activation_dropout,
        norm_first=config.norm_first,
        # Sources are padded to these lengths for decoding.
        max_length=source_lengths(config.max_length)[-1] if config.learned_positions else None,
        tie_output=config.tie_output,
        seed=config.seed,
    )


def make_attention(config):
    """The attention template."""
    width, heads = config.shape["hidden_dim"], config.shape["num_heads"]
    if config.attention == "luong":
        return LuongAttention(config.key_dim or width, dropout=config.attention_dropout)
    if config.key_dim is None and width % heads:
        raise ValueError(
            "The width must be a multiple of the number of heads, or --key-dim be given. "
            f"Received: hidden_dim={width}, num_heads={heads}"
        )
    arguments = dict(
        num_heads=heads,
        key_dim=config.key_dim or width // heads,
        value_dim=max(1, width // heads),
        dropout=config.attention_dropout,
    )
    return {
        "multi_head": lambda: MultiHeadAttention(**arguments),
        "talking_heads": lambda: TalkingHeadsAttention(**arguments),
        "interacting": lambda: InteractingHeadAttention(**arguments),
        "interacting_pairwise": lambda: InteractingHeadAttention(**arguments, interaction="pairwise"),
    }[config.attention]()


def make_trainer(config, transformer, jit_compile):
    """A compiled `training.Model` around the Transformer. Call it under the strategy's scope."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    trainer = Model(inputs, transformer(inputs), name="trainer")
    trainer.compile(
        optimizer=keras.optimizers.Adam(
            InverseSquareRoot(config.learning_rate, config.warmup_steps),
            beta_1=0.9,
            beta_2=config.beta_2,
            epsilon=config.epsilon,
            global_clipnorm=config.clipnorm,
        ),
        loss=LabelSmoothedCrossentropy(config.label_smoothing),
        weighted_metrics=[_accuracy(config)],
        jit_compile=jit_compile,
        steps_per_execution=config.steps_per_execution,
    )
    return trainer


def _accuracy(config):
    if config.precision != "float32":
        return keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    # The same number from fewer passes over the logits, but that it counts ties, which 16 bits make, as hits.
    return keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="accuracy")
