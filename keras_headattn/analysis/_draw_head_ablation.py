"""How many heads matter how much."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import check_named


def draw_head_ablation(models, bins=20, measure="accuracy"):
    """Draws how the heads of models are spread by the drop in a measure without them, models side by side.

    Heads at 0, a dashed line, are redundant; the model is better without those to the left of it.

    As figure 2 of An et al. 2020, "Repulsive attention".

    Args:
        models: dictionary of the name of a model to its drops, as `head_ablation` returns them.
        bins: number of bars, of the same places in all models.
        measure: str, what drops: the label of the axis.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_head_ablation({"standard": {"attention": np.array([0.0, 0.01, 0.2])}})
    >>> len(figure.axes)
    1
    """
    check_named("models", models)
    for name, drops in models.items():
        check_named(f"models[{name!r}]", drops)
    models = {name: np.concatenate([np.ravel(heads) for heads in drops.values()]) for name, drops in models.items()}
    edges = np.histogram_bin_edges(np.concatenate([*models.values()]), bins)
    figure = new_figure(3.2 * len(models), 3)
    grid = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)
    for axes, (name, drops) in zip(grid[0], models.items(), strict=True):
        axes.hist(drops, edges, color="tab:blue", edgecolor="white")
        axes.axvline(0, color="gray", linestyle="--", linewidth=1)
        axes.set_title(f"{name}, {len(drops)} heads", fontsize=9)
        axes.set_xlabel(f"drop in {measure}")
    grid[0, 0].set_ylabel("heads")
    grid[0, 0].yaxis.get_major_locator().set_params(integer=True)
    return figure
