"""Probabilities of labels, of texts by a trained classifier."""

import numpy as np
import tensorflow as tf

from keras_headattn.data import source_batches, source_lengths
from keras_headattn.text import split_words
from recipes.sentences.modelling import as_arguments
from recipes.sentences.text import encode, encode_columns


class Predictor:
    """Classifies texts, sorted by length, in batches of few shapes.

    Args:
        classifier: trained `SentenceClassifier` or `SentencePairClassifier`.
        tokenizer: that of the run.
        config: `ClassifyConfig`.
        batch_size: int, texts at a time. Default 64.
    """

    def __init__(self, classifier, tokenizer, config, batch_size=64):
        self.classifier = classifier
        self.tokenizer = tokenizer
        self.config = config
        self.batch_size = batch_size
        ids = tf.TensorSpec((None, None), tf.int32)  # one graph for all shapes
        inputs = {name: ids for name in (("text", "second_text") if config.is_pair else ("text",))}

        @tf.function(input_signature=[inputs], autograph=False)
        def logits(inputs):
            return classifier(as_arguments(inputs), training=False)

        self._logits = logits
        self.encode = tf.function(classifier.encode, [ids], autograph=False)  # to a row a head, (B, h, d)

    def __call__(self, texts, second_texts=None, progress=None):
        """Probabilities of all labels.

        Args:
            texts: list of N str.
            second_texts: list of N str; `None` where single texts are classified. Default `None`.
            progress: function of (texts done), called after each batch.

        Returns:
            float32 array `(N, C)`.
        """
        found = None
        done = 0
        for members, inputs in self.batches(texts, second_texts):
            probabilities = tf.nn.softmax(self._logits(inputs)).numpy()[: len(members)]
            found = np.zeros((len(texts), probabilities.shape[1]), "float32") if found is None else found
            found[members] = probabilities
            done += len(members)
            if progress:
                progress(done)
        return found

    def batches(self, texts, second_texts=None):
        """The batches in which texts are classified, as `source_batches` gives them. No row is all padding."""
        columns = encode_columns(self.config, self.tokenizer, texts, second_texts)
        lengths = [length for length in source_lengths(self.config.max_length) if length < self.config.max_length]
        return source_batches(columns, (*lengths, self.config.max_length), self.batch_size, filler=1)

    def attention(self, text):
        """Where the heads of the pooling look in one text.

        Args:
            text: str.

        Returns:
            `(tokens, weights)`: list of `n` str, at most `max_length`, and array `(h, n)`.
        """
        (ids,) = encode(self.config, self.tokenizer, [text])
        _, out = self.classifier.encode(tf.constant([ids]), return_intermediates=True)
        if self.config.tokens == "words":
            tokens = [word.decode() for word in split_words([text], self.config.lowercase)[0].numpy()] or [text]
        else:
            tokens = [self.tokenizer.id_to_token(int(token)) for token in ids]
        return tokens[: len(ids)], out["pooling"]["weights"][0].numpy()
