"""How unsure a classifier is."""

import numpy as np

from keras_headattn.analysis._validation import as_probabilities


def predictive_entropy(probabilities):
    """Entropy of each prediction, in nats: 0 if it is certain, log C if all C classes are as likely.

    Args:
        probabilities: `(B, C)`.

    Returns:
        Array `(B,)`.

    Raises:
        ValueError: naming what was received.

    >>> predictive_entropy([[0.5, 0.5], [1, 0]]).round(4).tolist()
    [0.6931, 0.0]
    """
    probabilities = as_probabilities(probabilities)
    logarithms = np.log(np.where(probabilities > 0, probabilities, 1))
    return np.abs(np.sum(probabilities * logarithms, axis=-1))  # a sum of numbers below 0, and no -0
