"""Word scores from a classifier's attention and gradients."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._private import flatten_layers
from keras_headattn._validation import check_positive
from keras_headattn.serving._attention_signature import attention_weights
from keras_headattn.serving._classifier import Classifier, traced
from keras_headattn.serving._word_places import word_places

KINDS = ("pooling", "cls", "received")


class WordScores:
    """Word scores of texts, from the attention or the gradients of their classifier.

    A word's score is the sum over its tokens. Words that are cut off score 0.

    Args:
        classifier: `Classifier` of a model made of this library's and Keras's layers.
        embedding: layer that embeds tokens, for gradients; it must be called once for each input of ids. Default
            `None`: the model's largest `keras.layers.Embedding`.
        batch_size: int, texts at a time. Default 16.

    >>> from keras_headattn.models import BiLSTMEncoder, SentenceClassifier
    >>> from keras_headattn.serving import Classifier
    >>> from keras_headattn.text import WordTokenizer
    >>> encoder = BiLSTMEncoder(5, embedding_dim=8, hidden_dim=6)
    >>> model = SentenceClassifier(encoder, num_classes=2, mlp_dim=10)
    >>> scores = WordScores(Classifier(model, WordTokenizer(["a", "bad", "film"]), ["negative", "positive"]))
    >>> [words.shape for words in scores.gradients(["a bad film", "a film"])]
    [(3,), (2,)]
    >>> [float(words.sum().round(4)) for words in scores.attention(["a bad film", "a film"])]
    [1.0, 1.0]
    """

    def __init__(self, classifier: Classifier, embedding: keras.layers.Layer | None = None, batch_size: int = 16):
        self.classifier = classifier
        self.batch_size = check_positive("batch_size", batch_size)
        self._embedding = embedding
        self._functions = {}

    def attention(
        self,
        texts: Sequence[str],
        second_texts: Sequence[str] | None = None,
        kind: str = "pooling",
        layer: int = -1,
        progress: Callable[[int], Any] | None = None,
    ) -> list[np.ndarray]:
        """Returns the attention that each word receives, averaged over heads.

        Args:
            texts: N str; words are separated by white space.
            second_texts: N str, the second text of each pair. Default `None`: single texts.
            kind: `"pooling"`, the weights of `SelfAttentivePooling`; `"cls"`, the weights of the first token (as in
                BERT); or `"received"`, the mean over all tokens. Default `"pooling"`.
            layer: int, index of the attention layer in the order of calls, for `"cls"` and `"received"`. Default -1.
            progress: function of the number of texts done. Default `None`.

        Returns:
            List of N float64 arrays `(n,)`, a score for each word; for pairs, the first text's words, then the
            second's.

        Raises:
            ValueError: if the model has no such attention.
        """
        if kind not in KINDS:
            raise ValueError(f"`kind` must be one of {', '.join(KINDS)}. Received: kind={kind!r}")
        name = ("attention", kind, layer)
        if name not in self._functions:
            self._functions[name] = traced(lambda inputs: self._attention(inputs, kind, layer))
        return self._sum_of_words(lambda inputs, members: self._functions[name](inputs), texts, second_texts, progress)

    def gradients(
        self,
        texts: Sequence[str],
        second_texts: Sequence[str] | None = None,
        classes: Sequence[int] | np.ndarray | None = None,
        steps: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> list[np.ndarray]:
        """Returns gradient times embedding, or integrated gradients, of each word.

        The gradient is that of a class's log odds, its logit minus the log-sum-exp of the others (for labels and
        numbers, of the logit itself), which does not vanish when the model is certain. Integrated gradients sum to the
        log odds minus those of a text with zero token vectors; positions and segments stay.

        Source: Simonyan et al. 2014, "Deep inside convolutional networks"; Ancona et al. 2018, "Towards better
        understanding of gradient-based attribution methods" (the product and its sign); Sundararajan et al. 2017,
        "Axiomatic attribution for deep networks".

        Args:
            texts, second_texts, progress: as in `attention`.
            classes: N ints, the class to explain for each text. Default `None`: the likeliest.
            steps: int, points of integrated gradients, from zero to the embedding. Default `None`: gradient times
                embedding.

        Returns:
            List of N float64 arrays `(n,)`, as in `attention`; negative for words that speak against the class.

        Raises:
            ValueError: if no embedding is found, or it is not called once for each input.
        """
        if steps is not None:
            check_positive("steps", steps)
        if classes is None:
            classes = self.classifier.probabilities(texts, second_texts).argmax(axis=1) if len(texts) else []
        classes = np.asarray(classes, "int32")
        if classes.shape != (len(texts),):
            raise ValueError(f"`classes` must be one for each of {len(texts)} texts. Received: classes={classes}")
        if "gradients" not in self._functions:
            further = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.float32)
            self._functions["gradients"] = traced(self._gradients, *further)
        points = [1.0] if steps is None else (np.arange(steps) + 0.5) / steps

        def mean(inputs, members):
            rows = len(next(iter(inputs.values())))
            labels = tf.constant(np.pad(classes[members], (0, rows - len(members))))
            results = [self._functions["gradients"](inputs, labels, tf.constant(p, tf.float32)) for p in points]
            return [tf.add_n(side) / len(points) for side in zip(*results, strict=True)]

        return self._sum_of_words(mean, texts, second_texts, progress)

    def words_read(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> list[list[int]]:
        """Returns how many words of each text the model reads before the text is cut.

        Args:
            texts, second_texts: as in `attention`.

        Returns:
            List of N int for `texts`, and for pairs one for `second_texts`.
        """
        sides = [texts] if second_texts is None else [texts, second_texts]
        places = word_places(self.classifier.tokenizer, self.classifier.columns(*sides), *sides) if texts else [[]]
        counts = [[], []]
        for index in range(len(texts)):
            read = np.concatenate([side[index] for side in places])
            first = len(texts[index].split())
            counts[0].append(int(max(read[read < first], default=-1)) + 1)
            counts[1].append(int(max(read, default=-1)) + 1 - first if any(read >= first) else 0)
        return counts[: len(sides)]

    def _sum_of_words(self, function, texts, second_texts, progress):
        """Sums token scores, `(B, n)` for each input of ids, over the tokens of each word."""
        sides = [texts] if second_texts is None else [texts, second_texts]
        places = word_places(self.classifier.tokenizer, self.classifier.columns(*sides), *sides) if texts else []
        scores = [np.zeros(sum(len(side[index].split()) for side in sides)) for index in range(len(texts))]
        done = 0
        for members, inputs in self.classifier.batches(*sides, batch_size=self.batch_size):
            for token_scores, words in zip(function(inputs, members), places, strict=True):
                for row, member in zip(token_scores.numpy(), members, strict=False):
                    real = words[member] >= 0
                    np.add.at(scores[member], words[member][real], row[: len(real)][real])
            done += len(members)
            if progress:
                progress(done)
        return scores

    def _attention(self, inputs, kind, layer):
        weights = attention_weights(self.classifier.model, inputs)
        return [self._weights(ids, maps, poolings, kind, layer) for ids, maps, poolings in weights]

    def _weights(self, ids, maps, poolings, kind, layer):
        if kind == "pooling":
            if not poolings:
                raise ValueError(
                    "kind='pooling' needs a model with SelfAttentivePooling. "
                    f"Received: one with {len(maps)} other attention layers, for kind='cls' or 'received'"
                )
            return tf.reduce_mean(tf.concat(poolings, axis=1), axis=1)
        if not -len(maps) <= layer < len(maps):
            raise ValueError(f"The model has {len(maps)} attention layers. Received: kind={kind!r}, layer={layer}")
        chosen = tf.reduce_mean(maps[layer], axis=1)
        if kind == "cls":
            return chosen[:, 0]
        real = tf.cast(ids != getattr(self.classifier.tokenizer, "pad_id", 0), tf.float32)
        return tf.math.divide_no_nan(tf.einsum("bnm,bn->bm", chosen, real), tf.reduce_sum(real, 1, keepdims=True))

    def _gradients(self, inputs, classes, point):
        ids = inputs["token_ids"] if isinstance(inputs, dict) else inputs
        sides = ids if isinstance(ids, tuple) else (ids,)
        # The gradient of a vector's scale is the vector's gradient times the vector.
        scales = [point * tf.ones(tf.shape(side), tf.float32) for side in sides]
        with tf.GradientTape() as tape:
            tape.watch(scales)
            with _scaled(self._find_embedding(), scales):
                logits = tf.cast(self.classifier.model(inputs, training=False), tf.float32)
            target = tf.gather(logits, classes, batch_dims=1)
            if self.classifier.activation == "softmax":
                mask = tf.one_hot(classes, logits.shape[-1], on_value=-1e9, off_value=0.0)
                target -= tf.reduce_logsumexp(logits + mask, axis=1)
        return tape.gradient(target, scales, unconnected_gradients="zero")

    def _find_embedding(self):
        if self._embedding is not None:
            return self._embedding
        layers = [layer for layer in flatten_layers(self.classifier.model) if isinstance(layer, keras.layers.Embedding)]
        if not layers:
            raise ValueError(
                "There is no keras.layers.Embedding in the model, or it is not built: give `embedding`, or call the "
                f"model first. Received: {self.classifier.model}"
            )
        return max(layers, key=lambda layer: layer.input_dim)


@contextlib.contextmanager
def _scaled(embedding, scales):
    """Multiplies the embedding's output for each token by `scales`, `(B, n)` for each of its calls."""
    call, left = embedding.call, list(scales)

    def scaled_call(*args, **kwargs):
        output = call(*args, **kwargs)
        if not left:
            raise ValueError(
                f"`embedding` must be called once for each input of ids, {len(scales)}. Received: {embedding.path!r}, "
                "which is called more often"
            )
        return output * tf.cast(left.pop(0), output.dtype)[:, :, None]

    embedding.call = scaled_call
    try:
        yield
    finally:
        del embedding.call  # restores the class's method
    if left:
        raise ValueError(
            f"`embedding` must be called once for each input of ids, {len(scales)}. Received: {embedding.path!r}, "
            f"which is called {len(scales) - len(left)} times"
        )
