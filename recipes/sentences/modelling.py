"""The model, the optimizer and the loss a configuration names."""

import keras

from keras_headattn.layers import MultiHeadAttention, SelfAttentivePooling
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from keras_headattn.training import Model
from recipes.engine.heads import make_head_regularizer, repel
from recipes.sentences.text import embedding_width

OPTIMIZERS = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD, "adagrad": keras.optimizers.Adagrad}


def make_classifier(config, vocabulary_size, num_classes):
    """The classifier: from ids `(B, n)`, or of pairs from two of them, to logits `(B, num_classes)`, float32."""
    encoder, regularizer = make_encoder(config, vocabulary_size), make_kernel_regularizer(config)
    pooling = SelfAttentivePooling(
        config.num_heads,
        config.attention_dim,
        kernel_regularizer=regularizer,
        head_regularizer=make_head_regularizer(config),
        name="pooling",
    )
    own = dict(factor_dim=config.factor_dim) if config.is_pair else {}
    classifier = (SentencePairClassifier if config.is_pair else SentenceClassifier)(
        encoder,
        num_classes,
        pooling,
        mlp_dim=config.mlp_dim,
        dropout=config.dropout,
        kernel_regularizer=regularizer,
        seed=config.seed,
        **own,
    )
    classifier.build()
    return classifier


def make_encoder(config, vocabulary_size):
    """The encoder: from ids `(B, n)` to states `(B, n, D)`."""
    common = dict(
        num_layers=config.num_layers,
        train_embeddings=config.train_embeddings,
        dropout=config.dropout,
        kernel_regularizer=make_kernel_regularizer(config),
        seed=config.seed,
        name="encoder",
    )
    if config.encoder == "transformer":
        common["attention"] = make_attention(config)
    encoder = {"bilstm": BiLSTMEncoder, "transformer": TransformerEncoder}[config.encoder]
    return encoder(vocabulary_size, embedding_width(config), config.hidden_dim, **common)


def make_kernel_regularizer(config):
    """L2 of all kernels; `None` for none."""
    return keras.regularizers.L2(config.l2) if config.l2 else None


def make_attention(config):
    """The template of the Transformer's attention; `None` for the BiLSTM.

    Raises:
        ValueError: if the heads do not fit in the width.
    """
    if config.encoder != "transformer":
        return None
    width = embedding_width(config)
    if width % config.encoder_heads:
        raise ValueError(
            f"--encoder-heads must divide the width of the Transformer, {width}. "
            f"Received: encoder_heads={config.encoder_heads}"
        )
    return MultiHeadAttention(
        config.encoder_heads, width // config.encoder_heads, head_regularizer=make_head_regularizer(config)
    )


def make_optimizer(config):
    """The optimizer: of all weights, and of the heads as particles around it."""
    inner = OPTIMIZERS[config.optimizer](
        config.learning_rate, clipvalue=config.clipvalue, global_clipnorm=config.clipnorm
    )
    return repel(config, inner)


def make_trainer(config, classifier, jit_compile):
    """A compiled `training.Model` around the classifier. Call it under the strategy's scope.

    Its inputs are those of `LabelledBatches`.
    """
    names = ("text", "second_text") if config.is_pair else ("text",)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    trainer = Model(inputs, classifier(as_arguments(inputs)), name="trainer")
    trainer.compile(
        optimizer=make_optimizer(config),
        loss=LabelSmoothedCrossentropy(config.label_smoothing),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=jit_compile,
        steps_per_execution=config.steps_per_execution,
    )
    return trainer


def as_arguments(inputs):
    """The inputs of the classifier among those of `LabelledBatches`: the ids, or of pairs a tuple of both."""
    return (inputs["text"], inputs["second_text"]) if "second_text" in inputs else inputs["text"]
