"""The model that settings name."""

import keras

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from recipes.classify.text import embedding_width
from recipes.engine import heads


def make_classifier(config, vocabulary_size, num_classes):
    """The classifier: from ids `(B, n)`, or of pairs from two of them, to logits `(B, num_classes)`, float32."""
    regularizer = keras.regularizers.L2(config.l2) if config.l2 else None
    common = dict(dropout=config.dropout, kernel_regularizer=regularizer, seed=config.seed)
    own = dict(attention=make_attention(config)) if config.encoder == "transformer" else {}
    encoder = {"bilstm": BiLSTMEncoder, "transformer": TransformerEncoder}[config.encoder](
        vocabulary_size,
        embedding_width(config),
        config.hidden_dim,
        num_layers=config.num_layers,
        train_embeddings=config.train_embeddings,
        name="encoder",
        **own,
        **common,
    )
    pooling = SelfAttentivePooling(
        config.pooling_heads,
        config.pooling_dim,
        kernel_regularizer=regularizer,
        head_regularizer=heads.make_head_regularizer(config),
        name="pooling",
    )
    own = dict(factor_dim=config.factor_dim) if config.is_pair else {}
    classifier = (SentencePairClassifier if config.is_pair else SentenceClassifier)(
        encoder,
        num_classes,
        pooling,
        mlp_dim=config.mlp_dim,
        **own,
        **common,
    )
    classifier.build()
    return classifier


def make_attention(config):
    """The template of the Transformer's attention; `None` for the BiLSTM."""
    if config.encoder != "transformer":
        return None
    return heads.make_attention(config, embedding_width(config), 4, max_length=config.max_length)
