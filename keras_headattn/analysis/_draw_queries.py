"""How the queries of a layer's heads lie in space."""

import keras
import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import check_named

PERPLEXITY = 30


def draw_queries(models, points=300, seed=0):
    """Draws queries as points in a plane, coloured by head, models side by side: the more gaps, the more heads differ.

    t-SNE lays out all heads of a model together. Its coordinates have no unit, and those of two models no common
    place; neighbourhoods are what it keeps. It runs on one core: `points` keeps it short.

    As figures 6 to 8 of "Disentangled mask attention in Transformer" (anonymous).

    Args:
        models: dictionary of the name of a model to the queries `(h, N, d)` of a layer's `h` heads for N tokens, of
            at least two numbers each. Leave out padding beforehand.
        points: number of tokens to draw of each head, chosen at random if there are more, the same ones in all heads.
        seed: integer, of the choice and of t-SNE.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if scikit-learn or matplotlib is not installed.

    >>> figure = draw_queries({"standard": np.random.default_rng(0).normal(size=(2, 12, 4))}, points=10)
    >>> figure.axes[0].collections[0].get_offsets().shape  # ten of each head
    (20, 2)
    """
    check_named("models", models)
    if isinstance(points, bool) or not isinstance(points, int) or points < 2:
        raise ValueError(f"`points` must be an integer of at least 2. Received: points={points}")
    models = {name: _as_queries(name, queries) for name, queries in models.items()}
    figure = new_figure(3.6 * len(models), 3.6)
    grid = figure.subplots(1, len(models), squeeze=False)
    beside = dict(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7, title_fontsize=7, handlelength=1)
    for axes, (name, queries) in zip(grid[0], models.items(), strict=True):
        rng = np.random.default_rng(seed)
        chosen = queries[:, np.sort(rng.permutation(queries.shape[1])[:points])]
        count, length = chosen.shape[:2]
        heads = np.repeat(np.arange(count), length)
        places = _plane(chosen.reshape(count * length, -1), seed)
        order = rng.permutation(len(heads))  # no head covers another
        colors = dict(cmap="tab10", vmin=-0.5, vmax=9.5) if count <= 10 else dict(cmap="turbo")
        dots = axes.scatter(*places[order].T, c=heads[order], s=4, linewidths=0, **colors)
        axes.legend(*dots.legend_elements(num=None, fmt="{x:.0f}"), title="head", **beside)
        axes.set_title(name, fontsize=9)
        axes.set(xticks=[], yticks=[])
    return figure


def _as_queries(name, queries):
    queries = np.asarray(keras.ops.convert_to_numpy(queries), "float64")
    if queries.ndim != 3 or not queries.size or min(queries.shape[1:]) < 2:
        raise ValueError(
            "`models` must have queries (heads, tokens, width) of each model, of at least two tokens and width two. "
            f"Received: models[{name!r}] of shape {queries.shape}"
        )
    if np.all(queries == queries[0, 0]):
        raise ValueError(f"`models` must have queries that are not all the same. Received: models[{name!r}]={queries}")
    return queries


def _plane(rows, seed):
    """Rows `(N, d)` laid out as `(N, 2)`."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError as error:
        raise ImportError('Install scikit-learn: pip install "keras_headattn[recipes]"') from error
    perplexity = min(PERPLEXITY, max(1, (len(rows) - 1) / 3))
    tsne = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed)
    # Threads wait for each other at every step: on busy cores, two took ten times as long as one.
    with threadpool_limits(1):
        return tsne.fit_transform(rows)
