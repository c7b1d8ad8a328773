"""Predictions of a run's model for texts."""

import functools

from keras_headattn.serving import Classifier


class TextPredictor(Classifier):
    """`Classifier` that returns the outputs of the model when called; `targets` are what is predicted."""

    def __init__(self, model, tokenizer, targets, max_length):
        super().__init__(model, tokenizer, targets.names or ["number"], max_length, activation=targets.activation)
        self.targets = targets

    def __call__(self, texts, second_texts=None, progress=None):
        return self.probabilities(texts, second_texts, progress)

    def measures(self, texts, second_texts=None):
        """Returns measures of the model itself: none."""
        return {}

    def lengths(self, texts, second_texts=None):
        """Returns the number of tokens of each text; of a pair that of the longer side, or of both together."""
        if self.joins_pairs:
            ids = self._uncut_tokenizer.encode(texts, second_texts)
            return map(len, ids["token_ids"] if isinstance(ids, dict) else ids)
        sides = [texts] if second_texts is None else [texts, second_texts]
        return (max(map(len, ids)) for ids in zip(*map(self.tokenizer.encode, sides), strict=True))

    @functools.cached_property
    def _uncut_tokenizer(self):
        return without_limit(self.tokenizer)


def without_limit(tokenizer):
    """Returns a tokenizer like another one that cuts texts, which cuts none."""
    return type(tokenizer).from_config({**tokenizer.get_config(), "max_length": None})
