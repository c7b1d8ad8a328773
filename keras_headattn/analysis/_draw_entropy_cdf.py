"""How many predictions are how unsure."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._predictive_entropy import predictive_entropy
from keras_headattn.analysis._validation import check_named


def draw_entropy_cdf(models):
    """Draws the empirical distribution function of the entropy of predictions, a curve for each model.

    On data of another domain, whose classes are none of the model's, the curve nearest to the bottom right is best:
    there few predictions are confident. A dotted line marks the entropy of a uniform prediction.

    As figure 5 of An et al. 2020, "Repulsive attention".

    Args:
        models: dictionary of the name of a model to its probabilities `(B, C)`.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_entropy_cdf({"standard": [[0.9, 0.1], [0.6, 0.4]], "repulsive": [[0.7, 0.3], [0.6, 0.4]]})
    >>> len(figure.axes[0].get_legend().get_texts())
    2
    """
    check_named("models", models)
    figure = new_figure(4.5, 3.5)
    axes = figure.add_subplot()
    for name, probabilities in models.items():
        axes.ecdf(predictive_entropy(probabilities), label=name)
    for classes in {np.shape(probabilities)[1] for probabilities in models.values()}:
        axes.axvline(np.log(classes), color="gray", linestyle=":", linewidth=1)
    axes.set(xlim=(0, None), ylim=(0, 1.02), xlabel="entropy (nats)", ylabel="share of predictions at most as unsure")
    axes.legend(fontsize=8)
    return figure
