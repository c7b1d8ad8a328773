"""The settings of text classification."""

import keras

from keras_headattn.models import BiLSTMEncoder, SentencePairClassifier, TransformerEncoder
from recipes.engine.config import option, settings
from recipes.engine.settings import Serving, Settings, Smoothing, model_arguments, optimizer_arguments
from recipes.engine.texts.settings import Texts

WIDTH = 300  # of words, where neither word vectors nor the settings say
WITHOUT_HEADS = ("cnn", "naive_bayes")  # encoders
OPTIMIZERS = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD, "adagrad": keras.optimizers.Adagrad}


@settings()
class Words:
    """The tokens of a text."""

    title = "words"

    tokens: str = option("words", "words, split in the graph; pieces: SentencePiece", ("words", "pieces"))
    vocabulary_size: int = option(30_000, "size of the vocabulary, in words or pieces", at_least=8)
    min_count: int = option(1, "smallest number of times that a known word occurs in the training set", at_least=1)
    lowercase: bool = option(True, "convert all text to lower case")
    max_length: int = option(200, "largest number of tokens of a text, which is cut after them", at_least=1)
    embeddings: str | None = option(None, "text file of word vectors, such as GloVe's, to begin with", metavar="FILE")


@settings()
class Model:
    """The encoder, the pooling and the classifier."""

    title = "model"

    encoder: str = option(
        "bilstm",
        "encoder whose states the pooling attends to; baselines without heads: cnn, Kim 2014, and naive_bayes, "
        "logistic "
        "regression on naive Bayes features of words and bigrams",
        ("bilstm", "transformer", *WITHOUT_HEADS),
    )
    pooling_heads: int = option(30, "number of heads of the pooling", at_least=1)
    pooling_dim: int = option(350, "width of the hidden layer of the pooling", at_least=1)
    # `embedding_dim` defaults to that of `embeddings`; `hidden_dim` is the feed-forward width of a Transformer
    model_arguments: dict = model_arguments(SentencePairClassifier, BiLSTMEncoder, TransformerEncoder)


@settings(select="val_accuracy", run="runs/classify")
class ClassifyConfig(Texts, Words, Model, Settings, Smoothing, Serving):
    """Every setting of a run. Other values, of papers and of the synthetic task, are in the folder `configs`.

    The defaults are for texts of your own. Widths are those of Lin et al. 2017, "A structured self-attentive sentence
    embedding", section 4.1.
    """

    title = "training"
    SOURCES = ("train", "tfds", "built_in")
    MOST_USED = (
        "train", "validation", "test", "text_column", "label_column", "predict", "batch_size",
        *Settings.MOST_USED,
    )  # fmt: skip
    SIZE_OPTIONS = (
        "model_arguments.mlp_dim", "pooling_heads", "model_arguments.hidden_dim", "model_arguments.embedding_dim",
    )  # fmt: skip

    optimizer: str = option("adam", "optimizer, at a constant learning rate", tuple(OPTIMIZERS))
    optimizer_arguments: dict = optimizer_arguments({name: [cls] for name, cls in OPTIMIZERS.items()})
    l2: float = option(0.0, "weight of the squared kernels in the loss; embeddings are left out", at_least=0)

    def check(self):
        if len(set(self.labels)) < len(self.labels) or len(self.labels) == 1:
            raise ValueError(f"--labels must be two different ones or more. Received: labels={self.labels}")
        if dropped := set(self.labels) & set(self.drop_labels):
            raise ValueError(
                "A label cannot be both used and dropped. "
                f"Received: {', '.join(sorted(dropped))} in --labels and --drop-labels"
            )
        if self.tokens == "pieces" and self.embeddings:
            raise ValueError(f"--embeddings needs --tokens words. Received: embeddings={self.embeddings!r}")
        if self.encoder != "transformer" and (
            self.attention != "multi_head" or self.attention_arguments or self.num_heads
        ):
            raise ValueError(
                "--attention, --attention-arguments and --num-heads need --encoder transformer. "
                f"Received: encoder={self.encoder!r}, attention={self.attention!r}, "
                f"attention_arguments={self.attention_arguments}, num_heads={self.num_heads}"
            )
        if self.encoder in WITHOUT_HEADS:
            self._check_without_heads()
        if self.predict == "number" and self.select == "val_accuracy":
            object.__setattr__(self, "select", "val_loss")  # numbers have no accuracy
        if self.predict != "class" and self.class_weights != "none":
            raise ValueError(f"--class-weights needs classes. Received: predict={self.predict!r}")
        if self.repulsive != "none" and self.pooling_heads < 2:
            raise ValueError(
                f"Heads repel each other: --pooling-heads must be at least 2. Received: {self.pooling_heads}"
            )

    def unused(self, given):
        reasons = {"label_smoothing": "is for classes, not for numbers"} if self.predict == "number" else {}
        if self.encoder in WITHOUT_HEADS:
            reasons |= dict.fromkeys(("pooling_heads", "pooling_dim"), "is not for an --encoder without heads")
        if self.tokens == "pieces":
            reasons["min_count"] = "is for --tokens words"
        if self.encoder == "naive_bayes":
            reasons |= dict.fromkeys(("embeddings", "model_arguments"), "is not for --encoder naive_bayes")
        return reasons

    def _check_without_heads(self):
        for name in ("repulsive", "attention_regularizer"):
            if getattr(self, name) != "none":
                raise ValueError(
                    f"--{name.replace('_', '-')} needs heads: --encoder bilstm or transformer. "
                    f"Received: encoder={self.encoder!r}, {name}={getattr(self, name)!r}"
                )
        if self.encoder == "naive_bayes" and (self.is_pair or self.predict == "number"):
            raise ValueError(
                "--encoder naive_bayes gives classes or labels to single texts. "
                f"Received: predict={self.predict!r}, second_column={self.second_column!r}"
            )
        object.__setattr__(self, "export_arguments", self.export_arguments | {"attention": False})

    @property
    def without_effect(self):
        """Settings without effect: a BiLSTM has no attention but that of the pooling, baselines have none."""
        names = () if self.encoder == "transformer" else ("attention", "num_heads")
        return (*names, "pooling_heads", "pooling_dim") if self.encoder in WITHOUT_HEADS else names

    @property
    def attention_shape(self):
        """Width of the Transformer, and its number of heads, unless the settings name another.

        The width of word vectors, which are not read here, is taken for one that the heads divide.
        """
        shape = super().attention_shape
        return (shape[0] if self.embeddings and not self.model_arguments.get("embedding_dim") else self.width), shape[1]

    def changed(self, given):
        """Returns these settings with others in their place, as for all recipes. Word vectors bring their own width."""
        if given.get("embeddings"):
            given = given | {"model_arguments": {"embedding_dim": None} | given.get("model_arguments", {})}
        return super().changed(given)

    @property
    def width(self):
        """Width of a word, without word vectors."""
        return self.model_arguments.get("embedding_dim") or WIDTH

    @property
    def description(self):
        if self.encoder in WITHOUT_HEADS:
            return self.encoder
        attention = f" with {super().description}" if self.encoder == "transformer" else ""
        return f"{self.encoder}{attention}, {self.pooling_heads} heads of pooling"
