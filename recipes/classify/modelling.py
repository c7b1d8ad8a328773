"""The model that settings name."""

import keras
from keras import layers, ops

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from recipes.classify.naive_bayes import NaiveBayesRegression
from recipes.classify.settings import WIDTH
from recipes.classify.text import embedding_width
from recipes.engine import modelling
from recipes.engine.config import passing_on, split_arguments

CONVOLUTIONS = (3, 4, 5)  # their widths, in tokens


def make_classifier(config, vocabulary_size, num_classes):
    """The classifier: from ids `(B, n)`, or of pairs from two of them, to logits `(B, num_classes)`, float32."""
    regularizer = keras.regularizers.L2(config.l2) if config.l2 else None
    if config.encoder == "naive_bayes":
        classifier = NaiveBayesRegression(vocabulary_size, num_classes, regularizer)
        classifier.build()
        return classifier
    common = dict(kernel_regularizer=regularizer, seed=config.seed)
    model = SentencePairClassifier if config.is_pair else SentenceClassifier
    model_arguments = {
        name: value for name, value in config.model_arguments.items() if name not in ("embedding_dim", "hidden_dim")
    }
    encoders = {"bilstm": BiLSTMEncoder, "transformer": TransformerEncoder, "cnn": make_cnn}
    encoder = encoders[config.encoder]
    of_model, of_encoder = split_arguments(model_arguments, model, encoder)
    if config.encoder == "transformer":
        of_encoder["attention"] = make_attention(config)
    with passing_on("model_arguments"):
        hidden_dim = config.model_arguments.get("hidden_dim", WIDTH)
        width = embedding_width(config.embeddings, config.model_arguments.get("embedding_dim"))
        encoder = encoder(vocabulary_size, width, hidden_dim, name="encoder", **of_encoder, **common)
    pooling = make_pooling(config, regularizer)
    with passing_on("model_arguments"):
        classifier = model(encoder, num_classes, pooling, **of_model, **common)
    classifier.build()
    return classifier


def make_pooling(config, regularizer):
    """Returns the attentive pooling; of a CNN the maximum of each of its maps."""
    if config.encoder == "cnn":
        return layers.GlobalMaxPooling1D(name="pooling")
    return SelfAttentivePooling(
        config.pooling_heads,
        config.pooling_dim,
        kernel_regularizer=regularizer,
        head_regularizer=modelling.make_head_regularizer(
            config.attention_regularizer, config.attention_regularizer_arguments
        ),
        name="pooling",
    )


def make_cnn(vocabulary_size, width, hidden_dim, train_embeddings=True, kernel_regularizer=None, seed=None, name=None):
    """Returns convolutions over word vectors, from ids `(B, n)` to maps `(B, n, D)` that are 0 at padding.

    `D` is `hidden_dim`, or the next smaller multiple of 3: a third of it for each width.

    Source: Kim 2014, "Convolutional neural networks for sentence classification".
    """
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(
        vocabulary_size,
        width,
        keras.initializers.RandomUniform(-0.25, 0.25, seed),
        trainable=train_embeddings,
        name="embedding",
    )(ids)
    real = ops.cast(ops.not_equal(ids, 0), x.dtype)[..., None]
    common = dict(padding="same", activation="relu", kernel_regularizer=kernel_regularizer)
    filters = hidden_dim // len(CONVOLUTIONS)
    x = layers.Concatenate()([layers.Conv1D(filters, size, **common)(x * real) for size in CONVOLUTIONS])
    return keras.Model(ids, x * real, name=name)


def make_attention(config):
    """Returns the template of the Transformer's attention; `None` for the BiLSTM."""
    if config.encoder != "transformer":
        return None
    width = embedding_width(config.embeddings, config.model_arguments.get("embedding_dim"))
    return modelling.make_attention(config, width, 4, max_length=config.max_length)
