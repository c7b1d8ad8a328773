"""The model that is pre-trained, and how it is trained."""

import functools

from keras_headattn import layers
from keras_headattn.models import Bert, ElectraPretraining, MaskedLM, MaskedLMPretraining
from keras_headattn.training import Model
from recipes.engine.encoders import MaskedLMTrainer, attention_of


def generator_attention_of(config):
    """The attention of the generator, for `Bert`, as `attention_of` has it."""
    cls = layers.ATTENTIONS[config.generator_attention]
    return functools.partial(cls, **config.generator_attention_arguments)


class ElectraTrainer(ElectraPretraining, Model):
    """`ElectraPretraining` on several replicas, and with XLA."""


def make_pretraining(config, tokenizer):
    """The model of the settings, with random weights: `ElectraPretraining` or `MaskedLMPretraining`.

    Args:
        config: `PretrainConfig`.
        tokenizer: `WordPieceTokenizer`, whose special ids and size count.
    """
    sizes = config.shape | dict(vocabulary_size=tokenizer.vocabulary_size, max_length=config.num_positions)
    sizes |= dict(dropout=config.dropout, attention_dropout=config.attention_dropout, attention=attention_of(config))
    sizes["initializer_range"] = config.initializer_range
    own = dict(mask_id=tokenizer.mask_id, special_ids=(tokenizer.bos_id, tokenizer.eos_id), seed=config.seed)
    own |= dict(drawn_share=config.drawn_share, replacement=config.replacement)
    if config.masked_share is not None:
        own["masked_share"] = config.masked_share
    if config.objective == "masked_lm":
        encoder = Bert(**sizes, pooler=False, seed=config.seed, name="encoder")
        model = MaskedLMPretraining(MaskedLM(encoder, name="masked_lm"), **own)
    else:
        own |= dict(generator_share=config.generator_share, generator_attention=generator_attention_of(config))
        own["discriminator_weight"] = config.discriminator_weight
        size = "electra_base" if config.size == "base" else "electra_small"
        model = ElectraPretraining.from_size(size, **sizes, **own, pooler=False)
    model.build()
    return model


def make_trainer(model):
    """The model that is trained, with the same layers."""
    config = model.get_config()
    for name in ("name", "trainable", "dtype", "generator", "discriminator", "masked_lm"):
        config.pop(name, None)
    if isinstance(model, ElectraPretraining):
        trainer = ElectraTrainer(model.generator, model.discriminator, **config)
    else:
        trainer = MaskedLMTrainer(model.masked_lm, **config)
    trainer.build()
    return trainer


def encoder_of(model):
    """The `Bert` that is kept: ELECTRA's is that of the discriminator."""
    return model.discriminator.encoder if isinstance(model, ElectraPretraining) else model.masked_lm.encoder
