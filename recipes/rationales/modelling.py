"""The encoder that settings name, and the model around it."""

import keras

from keras_headattn.models import Bert, RationaleClassifier
from recipes.engine.config import passing_on
from recipes.engine.encoders import attention_arguments, read_encoder


def make_encoder(config, tokenizer):
    """Makes an encoder, whose random weights are those of `encoder_seed`."""
    arguments = dict(seed=config.seed, **attention_arguments(config))
    keras.utils.set_random_seed(config.encoder_seed)
    if config.checkpoint:
        encoder, _ = read_encoder(config.checkpoint, **arguments)
    else:
        arguments |= dict(vocabulary_size=tokenizer.vocabulary_size, pad_id=tokenizer.pad_id)
        encoder = Bert.from_size(config.size, pooler=False, **arguments)
    if not encoder.built:
        encoder.build()
    keras.utils.set_random_seed(config.seed)
    if isinstance(encoder, Bert) and 0 < encoder.max_length < config.window:
        raise ValueError(f"--window must be at most {encoder.max_length}. Received: window={config.window}")
    return encoder


def make_classifier(config, encoder, num_classes):
    """Makes a `RationaleClassifier` around an encoder, built."""
    with passing_on("model_arguments"):
        model = RationaleClassifier(encoder, num_classes, **config.model_arguments, seed=config.seed)
    model.build()
    return model
