"""Which heads of a model attend to the same."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import check_named


def draw_head_redundancy(models):
    """Draws how much each head of a model attends to the same as each other, models side by side in one scale.

    The scale ends at 1, the same weights, and starts at the smallest number of any model. The title has the mean of a
    matrix, which is HR.

    As figures 3, 9 and 10 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        models: dictionary of the name of a model to its matrix `(H, H)`, as `head_redundancy_matrix` returns it.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_head_redundancy({"standard": [[1, 0.9], [0.9, 1]], "disentangled": [[1, 0.5], [0.5, 1]]})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['standard, HR 0.95', 'disentangled, HR 0.75']
    """
    check_named("models", models)
    models = {name: np.asarray(matrix, "float64") for name, matrix in models.items()}
    for name, matrix in models.items():
        if matrix.ndim != 2 or not matrix.size or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                "`models` must have a matrix (heads, heads) of each model. "
                f"Received: models[{name!r}] of shape {matrix.shape}"
            )
    lowest = min(matrix.min() for matrix in models.values())
    figure = new_figure(3.2 * len(models) + 0.7, 3.4)
    grid = figure.subplots(1, len(models), squeeze=False)
    for axes, (name, matrix) in zip(grid[0], models.items(), strict=True):
        picture = axes.imshow(matrix, vmin=min(lowest, 0.99), vmax=1, cmap="viridis")  # 0.99: not an empty scale
        axes.set_title(f"{name}, HR {matrix.mean():.2f}", fontsize=9)
        axes.set_xlabel("head")
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
    grid[0, 0].set_ylabel("head")
    figure.colorbar(picture, ax=grid, shrink=0.8, label="1 - divergence")
    return figure
