"""Predictions of a run's model, and the attention of its heads."""

import math

import numpy as np
import tensorflow as tf

from keras_headattn.analysis import head_distance
from keras_headattn.text import WordTokenizer, split_words
from recipes.engine.texts.predicting import TextPredictor


class Predictor(TextPredictor):
    """`TextPredictor` of a `SentenceClassifier` or `SentencePairClassifier`, which shows its heads."""

    def __init__(self, model, tokenizer, targets, max_length):
        super().__init__(model, tokenizer, targets, max_length)
        self.num_heads = getattr(getattr(model, "pooling", None), "num_heads", 0)
        ids = tf.TensorSpec((None, None), tf.int32)
        if self.num_heads:
            self.encode = tf.function(model.encode, [ids], autograph=False)  # (B, h, d)

    def measures(self, texts, second_texts=None):
        """Returns the mean distance of two heads of the pooling."""
        return {"dist": mean_head_distance(self, texts, second_texts)}

    def attention(self, text):
        """Attention of the pooling's heads in one text: `(tokens, weights)`, list of `n` str and array `(h, n)`."""
        ids = self.tokenizer.encode([text])[0][: self.max_length]
        _, out = self.model.encode(tf.constant([ids]), return_intermediates=True)
        if isinstance(self.tokenizer, WordTokenizer):
            tokens = [word.decode() for word in split_words([text], self.tokenizer.lowercase)[0].numpy()] or [text]
        else:
            tokens = [self.tokenizer.id_to_token(int(token)) for token in ids]
        return tokens[: len(ids)], out["pooling"]["weights"][0].numpy()


def mean_head_distance(predictor, texts, second_texts=None):
    """Returns the mean distance of two heads' vectors of a text, over all texts and both sides of pairs."""
    distances, counts = [], []
    if predictor.num_heads < 2:
        return math.nan
    for members, inputs in predictor.batches(texts, second_texts):
        for ids in inputs.values():
            distances.append(head_distance(predictor.encode(ids)[: len(members)]))
            counts.append(len(members))
    return float(np.average(distances, weights=counts))
