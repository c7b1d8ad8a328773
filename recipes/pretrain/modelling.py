"""The model that is pre-trained, and its trainer."""

import functools

from keras_headattn import layers
from keras_headattn.models import BERT_SIZES, Bert, ElectraPretraining, MaskedLM, MaskedLMPretraining
from keras_headattn.training import Model
from recipes.engine.config import passing_on
from recipes.engine.encoders import MaskedLMTrainer, attention_arguments

OF_MASKS = {"drawn_share", "masked_share", "random_share", "replacement", "loss_chunk_size"}
OF_ELECTRA = {"generator_share", "discriminator_weight"}
OF_VOCABULARY = {"vocabulary_size", "pad_id", "num_segments", "pooler"}


def generator_attention_of(config):
    """Returns the attention of the generator, for `Bert`, as `attention_arguments` does."""
    return functools.partial(layers.ATTENTIONS[config.generator_attention], **config.generator_attention_arguments)


class ElectraTrainer(ElectraPretraining, Model):
    """`ElectraPretraining` that trains on several replicas, and with XLA."""


def make_pretraining(config, tokenizer):
    """Makes `ElectraPretraining` or `MaskedLMPretraining` of the settings, with random weights.

    Of the tokenizer its special ids and its size count.
    """
    own = dict(mask_id=tokenizer.mask_id, special_ids=(tokenizer.bos_id, tokenizer.eos_id), seed=config.seed)
    named = BERT_SIZES.get(config.size, {})
    given = {name: value for name, value in named.items() if name not in OF_VOCABULARY}
    given |= config.shape | config.model_arguments
    given |= dict(vocabulary_size=tokenizer.vocabulary_size, pooler=False, **attention_arguments(config))
    with passing_on("model_arguments"):
        if config.objective == "masked_lm":
            of_masks = {name: given.pop(name) for name in OF_MASKS & given.keys()}
            for name in OF_ELECTRA & given.keys():
                del given[name]
            encoder = Bert(**given, seed=config.seed, name="encoder")
            model = MaskedLMPretraining(MaskedLM(encoder, name="masked_lm"), **of_masks, **own)
        else:
            size = "electra_base" if config.size.endswith("base") else "electra_small"
            own["generator_attention"] = generator_attention_of(config)
            model = ElectraPretraining.from_size(size, **given, **own)
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
    """Returns the `Bert` that is kept: that of the discriminator for ELECTRA."""
    return model.discriminator.encoder if isinstance(model, ElectraPretraining) else model.masked_lm.encoder
