"""Effect, distance and number of attention heads."""

import contextlib
import functools
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_headattn._figures import Figure, mark_parts, new_figure, not_below_zero, short_names
from keras_headattn._paths import by_path
from keras_headattn._private import flatten_layers
from keras_headattn._types import Tensor
from keras_headattn._validation import check_positive
from keras_headattn.analysis._validation import check_named
from keras_headattn.layers import Attention


def head_ablation(
    model: keras.Model | keras.layers.Layer, evaluate: Callable[[], float], verbose: bool = False
) -> dict[str, np.ndarray]:
    """Returns the drop in a measure with each head masked in turn, in every attention layer of a model.

    A head is masked by zeros in the kernel of the output projection (`"attention_output"`), which is restored
    afterwards. This works for layers of this library, Keras and KerasHub, and with compiled functions.
    `SelfAttentivePooling` and `GraphAttention` have no output projection: their output is masked, and the model is
    compiled anew for each head.
    Source: Michel et al. 2019, "Are sixteen heads really better than one?"; An et al. 2020, "Repulsive attention",
    section 4.2.

    Args:
        model: built model or layer with attention.
        evaluate: function without arguments that returns a number, larger is better, such as
            `lambda: model.evaluate(data, verbose=0, return_dict=True)["accuracy"]`. It runs once for the whole model
            and once for each head.
        verbose: True to show a progress bar.

    Returns:
        Dictionary from layer path to drops `(h,)`: the measure of the whole model minus that without the head. Repeated
        paths end in `_1`, `_2`, ... `InteractingHeadAttention` with pairs of heads has a drop for each pair.

    Raises:
        ValueError: if the model has no attention or is not built, `evaluate` returns no number, or it runs a layer
            without output projection in a function compiled before.

    >>> x = keras.Input((5, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(num_heads=2, key_dim=4, name="attention")(x, x))
    >>> drops = head_ablation(model, lambda: float(keras.ops.max(model(np.ones((1, 5, 8))))))
    >>> drops["attention"].shape
    (2,)
    """
    maskings = _maskings(model)
    if not maskings:
        raise ValueError(
            f"`model` must have a layer with attention heads, and be built: call it first. Received: model={model}"
        )
    whole = _number(evaluate())
    bar = keras.utils.Progbar(sum(heads for heads, _ in maskings.values()), verbose=int(verbose))
    drops = {path: np.zeros(heads) for path, (heads, _) in maskings.items()}
    for path, (heads, without) in maskings.items():
        for head in range(heads):
            with without(head):
                drops[path][head] = whole - _number(evaluate())
            bar.add(1)
    return drops


def _number(value):
    value = np.asarray(value)
    if value.ndim or value.dtype.kind not in "biuf":
        raise ValueError(f"`evaluate` must return a number. Received: {value}")
    return float(value)


def _maskings(model):
    """Returns `(heads, context manager that masks a head)` of each attention layer, by path."""
    maskings = []
    for layer in flatten_layers(model):
        head_kernel = getattr(layer, "head_kernel", None)
        if layer.name == "attention_output" and len(layer.kernel.shape) > 2:
            path, heads = layer.path.rpartition("/")[0], layer.kernel.shape[0]
            without = functools.partial(_without_rows, layer)
        elif isinstance(layer, Attention) and layer.built and layer.output_dense is None:  # heads are columns
            path, heads = layer.path, layer.num_heads
            kept = np.repeat(~np.eye(heads, dtype=bool), layer.value_dim, axis=1)
            without = functools.partial(_without_output, model, layer, kept)
        elif getattr(head_kernel, "heads", None) is not None:
            path, heads = layer.path, head_kernel.shape[head_kernel.heads.axis]
            without = functools.partial(_without_output, model, layer, ~np.eye(heads, dtype=bool)[..., None])
        else:
            continue
        maskings.append((path, (heads, without)))
    return by_path(maskings)


@contextlib.contextmanager
def _without_rows(projection, head):
    """Sets a head's part of an output kernel `(h, d, ...)`, and of its LoRA update, to zero for a while."""
    if projection.quantization_mode not in (None, "int8", "float8"):
        raise ValueError(
            "Kernels that hold several weights in a byte have no rows of one head. "
            f"Received: {projection.path}, quantized to {projection.quantization_mode}"
        )
    kernels = [weight for weight in projection.weights if weight.name in ("kernel", "lora_kernel_a")]
    values = [np.array(keras.ops.convert_to_numpy(kernel)) for kernel in kernels]
    try:
        for kernel, value in zip(kernels, values, strict=True):
            masked = value.copy()
            masked[head] = 0
            kernel.assign(masked)
        yield
    finally:
        for kernel, value in zip(kernels, values, strict=True):
            kernel.assign(value)


@contextlib.contextmanager
def _without_output(model, layer, kept, head):
    """Sets the part of a layer's output to zero for a while that `kept[head]` is False for."""
    call, calls = layer.call, []

    def masked_call(*args, **kwargs):
        calls.append(args)
        outputs = call(*args, **kwargs)
        output, *rest = outputs if isinstance(outputs, tuple) else (outputs,)
        output = keras.ops.where(kept[head], output, keras.ops.zeros_like(output))
        return (output, *rest) if rest else output

    layer.call = masked_call
    _compile_anew(model)
    try:
        yield
    finally:
        del layer.call  # restores the class's method
        _compile_anew(model)
    if not calls:
        raise ValueError(
            f"`evaluate` must run the layer {layer.path!r} anew, as `model.evaluate`, `model.predict` and `model(...)` "
            "do; it has no output projection, so a function compiled before cannot mask its heads. "
            "Received: an `evaluate` that never called it"
        )


def _compile_anew(model):
    if isinstance(model, keras.Model):
        model.test_function = model.predict_function = None


def draw_head_ablation(
    models: Mapping[str, Mapping[str, ArrayLike]],
    bins: int | None = None,
    measure: str = "accuracy",
    title: str | None = None,
) -> Figure:
    """Draws the drop in a measure without each head, models side by side on one scale.

    Heads with a drop of 0 are redundant. Heads are counted from 1. Needs matplotlib.

    Args:
        models: dictionary from model name to drops, see `head_ablation`.
        bins: number of bars of a histogram of the drops, as figure 2 of An et al. 2020, "Repulsive attention". Default
            `None`: a bar for each head, with lines between layers.
        measure: name of the measure, for labels.
        title: title of the figure. Default `None`: one that names the measure.

    >>> figure = draw_head_ablation({"standard": {"attention": np.array([0.0, 0.01, 0.2])}})
    >>> len(figure.axes[0].patches)
    3
    """
    check_named("models", models)
    for name, drops in models.items():
        check_named(f"models[{name!r}]", drops)
    drops = {name: np.concatenate([np.ravel(heads) for heads in layers.values()]) for name, layers in models.items()}
    widths = [3.2 if bins else min(12, max(3.2, 0.9 + 0.2 * len(heads))) for heads in drops.values()]
    figure = new_figure(sum(widths), 3.8, f"Drop in {measure} without each head" if title is None else title)
    grid = figure.subplots(1, len(models), sharex=bool(bins), sharey=True, squeeze=False, width_ratios=widths)[0]
    edges = np.histogram_bin_edges(np.concatenate([*drops.values()]), bins or 1)
    for axes, (name, layers) in zip(grid, models.items(), strict=True):
        if bins:
            _histogram(axes, drops[name], edges, measure)
        else:
            _bars(axes, drops[name], {layer: np.size(heads) for layer, heads in layers.items()})
        axes.set_title(f"{name}, {len(drops[name])} heads", fontsize=9)
    grid[0].set_ylabel("heads" if bins else f"drop in {measure}")
    return figure


def _histogram(axes, drops, edges, measure):
    axes.hist(drops, edges, color="tab:blue", edgecolor="white")
    axes.axvline(0, color="gray", linestyle="--", linewidth=1)
    axes.set_xlabel(f"drop in {measure}")
    axes.xaxis.get_major_locator().set_params(nbins=4)
    axes.yaxis.get_major_locator().set_params(integer=True)


def _bars(axes, drops, sizes):
    axes.bar(range(len(drops)), drops, color="tab:blue")
    axes.axhline(0, color="gray", linewidth=1)
    axes.set_xlim(-0.6, len(drops) - 0.4)
    if len(sizes) > 1:
        mark_parts(axes, [*sizes.values()], short_names(sizes), both=False)
        axes.set_xlabel("heads, by layer")
    else:
        ticks = range(0, len(drops), -(-len(drops) // 30))
        axes.set_xticks(ticks, [tick + 1 for tick in ticks], fontsize=8)
        axes.set_xlabel("head")


def head_distance(representations: Tensor) -> float:
    """Returns the mean 2-norm distance between two heads' representations, over all items and pairs of heads.

    Source: An et al. 2020, "Repulsive attention", table 1, where it is called Dist.

    Args:
        representations: `(B, h, d)`, such as from a sentence classifier's `encode`; at least two heads.

    >>> head_distance(np.array([[[0, 0], [3, 4]]]))
    5.0
    """
    array = np.asarray(keras.ops.convert_to_numpy(representations), "float64")
    if array.ndim != 3 or array.shape[0] < 1 or array.shape[1] < 2:
        raise ValueError(
            "`representations` must be (batch, heads, width), of at least one item and two heads. "
            f"Received: representations of shape {array.shape}"
        )
    one, other = np.triu_indices(array.shape[1], 1)
    # Item by item: the pairs of all items at once would need much memory.
    return float(np.mean([np.linalg.norm(heads[one] - heads[other], axis=-1).mean() for heads in array]))


def draw_error_by_heads(
    models: Mapping[str, Mapping[int, Sequence[float]]],
    measure: str = "error",
    title: str = "Error by the number of heads",
) -> Figure:
    """Draws error against number of heads: mean and sample standard deviation over seeds.

    Like figure 3 of An et al. 2020, "Repulsive attention". Needs matplotlib.

    Args:
        models: dictionary from model name to a dictionary from number of heads to the list of its seeds' errors.
        measure, title: labels of the axis and the figure.

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
    figure = new_figure(4.5, 3.7, title)
    axes = figure.add_subplot()
    for name, errors in models.items():
        heads = sorted(errors)
        means = [np.mean(errors[count]) for count in heads]
        deviations = [np.std(errors[count], ddof=1) if len(errors[count]) > 1 else 0 for count in heads]
        axes.errorbar(heads, means, deviations, marker="o", markersize=4, capsize=3, linewidth=1.2, label=name)
    axes.set(xlabel="heads", ylabel=f"{measure}, mean ± deviation of seeds")
    axes.set_xscale("log", base=2)
    counts = sorted({count for errors in models.values() for count in errors})
    axes.set_xticks(counts, list(map(str, counts)))
    axes.set_xticks([], minor=True)
    not_below_zero(axes, [error for errors in models.values() for seeds in errors.values() for error in seeds])
    axes.legend(fontsize=8)
    return figure


def max_num_heads(model_dim: int, lengths: float | Iterable[Any]) -> tuple[int, list[int]]:
    """Computes the largest number of heads without a low-rank bottleneck, h_max = model_dim / mean length.

    Source: Li and Luo 2022, "Interacting-head attention", eq. 13.

    Args:
        model_dim: width of the model.
        lengths: mean length of the training sequences in tokens, or an iterable of single sequences or of lengths.

    Returns:
        `(h_max, proposals)`: h_max rounded down, at least 1, and the powers of two from 2 to h_max that divide
        `model_dim` (the paper's table 2).

    Raises:
        ValueError: for an empty data set, one of batches or pairs, or a width or mean length that is not positive.

    >>> max_num_heads(512, 20)
    (25, [2, 4, 8, 16])
    >>> max_num_heads(512, [[5, 6, 7], [8]])[0]
    256
    """
    check_positive("model_dim", model_dim)
    mean = _mean(lengths)
    if not mean > 0:
        raise ValueError(f"`lengths` must have a positive mean. Received: a mean of {mean}")
    highest = max(1, int(model_dim / mean))
    powers = [2**i for i in range(1, highest.bit_length())]
    return highest, [heads for heads in powers if model_dim % heads == 0]


def _mean(lengths):
    if isinstance(lengths, numbers.Real):
        return float(lengths)
    sizes = list(map(_length, lengths))
    if not sizes:
        raise ValueError("`lengths` must hold at least one sequence. Received: an empty iterable")
    return sum(sizes) / len(sizes)


def _length(item):
    if isinstance(item, (tuple, dict)):
        raise ValueError(
            f"`lengths` must be one side of a data set of pairs. Received: an item of type {type(item).__name__}"
        )
    if isinstance(item, list):
        rank = np.ndim(item[:1])  # lists in a list may differ in length
    else:
        rank = len(item.shape) if hasattr(item, "shape") else np.ndim(item)
    if rank > 1:
        raise ValueError(
            "`lengths` must hold single sequences, or their lengths: unbatch the data set. "
            f"Received: an item with {rank} axes"
        )
    return len(item) if rank else float(item)
