"""Logistic regression on naive Bayes features."""

import keras
import numpy as np
from keras import ops

BIGRAMS = 2**18  # that are told apart; two that share a row are rare


@keras.saving.register_keras_serializable(package="recipes.classify")
class NaiveBayesRegression(keras.Model):
    """Logistic regression on the unigrams and bigrams of a text, each worth its log-count ratios, one for each class.

    Source: Wang and Manning 2012, "Baselines and bigrams", section 2, with a smoothing of 1, binary features, and
    logistic regression in place of the SVM.

    Args:
        vocabulary_size: number of token ids; 0 is padding.
        num_classes: number of classes.
        kernel_regularizer: of the weights.
    """

    def __init__(self, vocabulary_size, num_classes, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size, self.num_classes = vocabulary_size, num_classes
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        # All ones. A gradient by it is what a word adds, alone and in bigrams.
        self.presence = keras.layers.Embedding(vocabulary_size, 1, "ones", trainable=False, name="presence")

    def build(self, input_shape=None):
        shape = (self.vocabulary_size + BIGRAMS, self.num_classes)
        self.presence.build((None, None))
        self.ratios = self.add_weight(shape, "zeros", name="ratios", trainable=False)
        self.kernel = self.add_weight(shape, "zeros", name="kernel", regularizer=self.kernel_regularizer)
        self.bias = self.add_weight((self.num_classes,), "zeros", name="bias")
        self.built = True

    def call(self, inputs):
        unigrams = ops.cast(inputs, "int64")
        features = ops.concatenate([unigrams, self.bigrams(unigrams)], axis=1)  # (B, f)
        present = self.presence(inputs)[..., 0]
        present *= ops.cast(ops.not_equal(inputs, 0), present.dtype)
        present = ops.concatenate([present, present[:, :-1] * present[:, 1:]], axis=1)
        same = ops.cast(ops.equal(features[:, :, None], features[:, None]), "int32")
        present *= ops.cast(ops.sum(ops.tril(same, -1), axis=2) == 0, present.dtype)  # the first of each
        worth = ops.take(self.ratios, features, axis=0) * ops.take(self.kernel, features, axis=0)
        return ops.cast(ops.einsum("bf,bfc->bc", present, worth) + self.bias, "float32")

    def bigrams(self, ids):
        """Returns the rows of bigrams, `(B, n - 1)`, of int64 ids `(B, n)`."""
        return (ids[:, :-1] * 1_000_003 + ids[:, 1:]) % BIGRAMS + self.vocabulary_size

    def learn_ratios(self, texts, labels):
        """Sets the log-count ratios to those of a training set.

        Args:
            texts: N integer arrays `(n,)`, without padding.
            labels: classes `(N,)`, or for several a text zeros and ones `(N, C)`.
        """
        labels = labels if labels.ndim == 2 else np.eye(self.num_classes)[labels]
        counts = np.zeros((2, *self.ratios.shape))  # of the texts of a class, and of all others
        for ids, label in zip(texts, labels, strict=True):
            ids = ids[None].astype("int64")
            features = np.unique(np.concatenate([ids, self.bigrams(ids)], axis=1))
            counts[0, features] += label
            counts[1, features] += 1 - label
        seen = counts.sum(axis=(0, 2)) > 0
        logs = np.log((1 + counts) / (1 + counts)[:, seen].sum(axis=1, keepdims=True))
        self.ratios.assign((logs[0] - logs[1]) * seen[:, None])

    def get_config(self):
        regularizer = keras.regularizers.serialize(self.kernel_regularizer)
        sizes = dict(vocabulary_size=self.vocabulary_size, num_classes=self.num_classes)
        return {**super().get_config(), **sizes, "kernel_regularizer": regularizer}
