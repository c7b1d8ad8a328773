"""The model that settings name."""

import keras

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from recipes.classify.text import embedding_width
from recipes.engine import heads
from recipes.engine.config import passing_on
from recipes.engine.signatures import split_arguments

MODELS = "keras_headattn.models"


def make_classifier(config, vocabulary_size, num_classes):
    """The classifier: from ids `(B, n)`, or of pairs from two of them, to logits `(B, num_classes)`, float32."""
    regularizer = keras.regularizers.L2(config.l2) if config.l2 else None
    common = dict(kernel_regularizer=regularizer, seed=config.seed)
    model = SentencePairClassifier if config.is_pair else SentenceClassifier
    given = {
        name: value for name, value in config.model_arguments.items() if name not in ("embedding_dim", "hidden_dim")
    }
    encoder = {"bilstm": BiLSTMEncoder, "transformer": TransformerEncoder}[config.encoder]
    of_model, of_encoder = split_arguments(given, f"{MODELS}.{model.__name__}", f"{MODELS}.{encoder.__name__}")
    if config.encoder == "transformer":
        of_encoder["attention"] = make_attention(config)
    with passing_on("model_arguments"):
        hidden_dim = config.model_arguments.get("hidden_dim", 300)
        width = embedding_width(config.embeddings, config.model_arguments.get("embedding_dim"))
        encoder = encoder(vocabulary_size, width, hidden_dim, name="encoder", **of_encoder, **common)
    pooling = SelfAttentivePooling(
        config.pooling_heads,
        config.pooling_dim,
        kernel_regularizer=regularizer,
        head_regularizer=heads.make_head_regularizer(
            config.attention_regularizer, config.attention_regularizer_arguments
        ),
        name="pooling",
    )
    with passing_on("model_arguments"):
        classifier = model(encoder, num_classes, pooling, **of_model, **common)
    classifier.build()
    return classifier


def make_attention(config):
    """Returns the template of the Transformer's attention; `None` for the BiLSTM."""
    if config.encoder != "transformer":
        return None
    width = embedding_width(config.embeddings, config.model_arguments.get("embedding_dim"))
    return heads.make_attention(config, width, 4, max_length=config.max_length)
