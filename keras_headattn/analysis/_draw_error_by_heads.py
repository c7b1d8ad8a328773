"""Error against the number of heads."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import check_named


def draw_error_by_heads(models, measure="error"):
    """Draws the error of models against their number of heads: the mean of seeds, and their standard deviation.

    As figure 3 of An et al. 2020, "Repulsive attention".

    Args:
        models: dictionary of the name of a model to a dictionary of a number of heads to the errors of its seeds, a
            list of at least one. The deviation is that of a sample, with one less than the seeds below the line.
        measure: str, the label of the axis.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_error_by_heads({"standard": {1: [0.31, 0.33], 8: [0.28, 0.29]}})
    >>> figure.axes[0].get_xlabel()
    'heads'
    """
    check_named("models", models)
    for name, errors in models.items():
        check_named(f"models[{name!r}]", errors)
        for heads, seeds in errors.items():
            if np.ndim(seeds) != 1 or not len(seeds):
                raise ValueError(
                    "`models` must have a list of the errors of at least one seed for each number of heads. "
                    f"Received: models[{name!r}][{heads}]={seeds}"
                )
    figure = new_figure(4.5, 3.5)
    axes = figure.add_subplot()
    for name, errors in models.items():
        heads = sorted(errors)
        means = [np.mean(errors[number]) for number in heads]
        deviations = [np.std(errors[number], ddof=1) if len(errors[number]) > 1 else 0 for number in heads]
        axes.errorbar(heads, means, deviations, marker="o", markersize=4, capsize=3, linewidth=1.2, label=name)
    axes.set(xlabel="heads", ylabel=measure, xticks=sorted({number for errors in models.values() for number in errors}))
    axes.legend(fontsize=8)
    return figure
