"""Fine-tuning of an encoder by the settings `FineTuning`: its tokenizer, its optimizer, its learning rate."""

import keras

from keras_headattn.optimizers import AdamWeightDecay, LinearDecay, layerwise_rates
from recipes.engine.encoders import kept_tokenizer, tokenizer_of
from recipes.engine.optimizer import make_optimizer
from recipes.engine.vocabularies import learn_tokenizer

WITHOUT_DECAY = ["bias", "gamma", "beta", "scale"]  # of layers; norms and biases have these names


def make_tokenizer(run, config, texts):
    """Returns the tokenizer of a run: the checkpoint's, or one that is learned from the texts that a function returns.

    It is kept in the run's folder.
    """

    def make():
        if config.checkpoint:
            return tokenizer_of(config.checkpoint, config.max_length)
        learned = learn_tokenizer(run.folder / "vocab.txt", texts(), "wordpieces", config.vocabulary_size)
        return learned.with_max_length(config.max_length)

    return kept_tokenizer(run.folder / "tokenizer.json", make)


def warmup_steps(config, steps):
    """Returns the steps in which the learning rate rises, for so many steps an epoch."""
    total = max(2, steps * config.epochs)
    return min(round(config.warmup_share * total), total - 1)


def fine_tuning_optimizer(config, steps, num_layers=1):
    """Returns the optimizer, for so many steps an epoch and an encoder of so many layers."""
    total = max(2, steps * config.epochs)
    is_electra = config.optimizer == "electra"
    schedule = LinearDecay(config.learning_rate, warmup_steps(config, steps), total, decay_in_warmup=is_electra)
    if is_electra:
        rates = None if config.layer_decay is None else layerwise_rates(num_layers, config.layer_decay)
        return make_optimizer(config, AdamWeightDecay, learning_rate=schedule, rates=rates)
    optimizer = make_optimizer(config, keras.optimizers.AdamW, learning_rate=schedule)
    optimizer.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
    return optimizer


def with_reduction(loss, config):
    """Returns a loss, reduced as the optimizer of the settings needs it."""
    if config.optimizer == "electra":
        loss.reduction = "sum"
    return loss
