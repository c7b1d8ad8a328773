"""The model that is pre-trained, and its trainer."""

import functools

from keras_headattn import layers
from keras_headattn.models import MODERNBERT_SIZES, Bert, ElectraPretraining, MaskedLM, MaskedLMPretraining, ModernBert
from keras_headattn.training import Model
from recipes.engine.config import passing_on
from recipes.engine.encoders import MaskedLMTrainer, attention_arguments

OF_MASKS = {"drawn_share", "masked_share", "random_share", "replacement", "loss_chunk_size"}
OF_ELECTRA = {"generator_share", "discriminator_weight"}


def generator_attention_of(config):
    """Returns the attention of the generator, for `Bert`, as `attention_arguments` does."""
    return functools.partial(layers.ATTENTIONS[config.generator_attention], **config.generator_attention_arguments)


class ElectraTrainer(ElectraPretraining, Model):
    """`ElectraPretraining` that trains on several replicas, and with XLA."""


def make_pretraining(config, tokenizer):
    """Makes `ElectraPretraining` or `MaskedLMPretraining` of the settings, with random weights.

    Of the tokenizer its special ids and its size count.
    """
    pretraining_arguments = dict(
        mask_id=tokenizer.mask_id, special_ids=(tokenizer.bos_id, tokenizer.eos_id), seed=config.seed
    )
    arguments = config.shape | config.model_arguments
    arguments |= dict(vocabulary_size=tokenizer.vocabulary_size, **attention_arguments(config))
    with passing_on("model_arguments"):
        if config.objective == "masked_lm":
            of_masks = {name: arguments.pop(name) for name in OF_MASKS & arguments.keys()}
            for name in OF_ELECTRA & arguments.keys():
                del arguments[name]
            arguments |= dict(seed=config.seed, name="encoder")
            is_modern = config.size in MODERNBERT_SIZES
            encoder = ModernBert(**arguments) if is_modern else Bert(**arguments, pooler=False)
            model = MaskedLMPretraining(MaskedLM(encoder, name="masked_lm"), **of_masks, **pretraining_arguments)
        else:
            size = "electra_base" if config.size.endswith("base") else "electra_small"
            pretraining_arguments["generator_attention"] = generator_attention_of(config)
            model = ElectraPretraining.from_size(size, **arguments, pooler=False, **pretraining_arguments)
    model.build()
    return model


def make_trainer(model):
    """Makes the model that is trained, with the same layers."""
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
    """Returns the encoder that is kept: that of the discriminator for ELECTRA."""
    return model.discriminator.encoder if isinstance(model, ElectraPretraining) else model.masked_lm.encoder
