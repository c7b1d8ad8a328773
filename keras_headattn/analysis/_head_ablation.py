"""How much each head of a model matters."""

import contextlib
import functools

import keras
import numpy as np


def head_ablation(model, evaluate, verbose=False):
    """Drop in a measure with one head masked at a time, in every attention layer of a model.

    A head is masked by zeros in its part of the output projection's kernel, `"attention_output"`, which is put back
    after each evaluation, and also if that fails: so it works with the attention of this library, of Keras and of
    KerasHub, and with functions that are compiled already. A layer without output projection, which is
    `SelfAttentivePooling`, is masked in its output `(B, h, d)`; the model's compiled functions are then made anew for
    each head.

    Source: Michel et al. 2019, "Are sixteen heads really better than one?"; An et al. 2020, "Repulsive attention",
    section 4.2.

    Args:
        model: any built Keras model, or layer, with attention in it.
        evaluate: function of no arguments that returns the measure of the model as a number, larger is better, such
            as `lambda: model.evaluate(data, verbose=0, return_dict=True)["accuracy"]`. It is called once for the whole
            model and once for each head.
        verbose: whether to show a progress bar.

    Returns:
        Dictionary of an attention layer's path to the drop of each of its heads, an array `(h,)`: the measure of the
        whole model less that without the head. Of equal paths the second one ends in `_1`, and so on. Of heads that
        meet in pairs, `InteractingHeadAttention`'s, there are as many as pairs.

    Raises:
        ValueError: if there is no attention in the model, `evaluate` returns no number, or it runs a layer without
            output projection in a function that was compiled before.

    >>> x = keras.Input((5, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(num_heads=2, key_dim=4, name="attention")(x, x))
    >>> drops = head_ablation(model, lambda: float(keras.ops.max(model(np.ones((1, 5, 8))))))
    >>> drops["attention"].shape
    (2,)
    """
    maskings = _maskings(model)
    if not maskings:
        raise ValueError(
            "There is no layer with attention heads in the model, or it is not built: call it first. "
            f"Received: model={model}"
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
    """Of each attention layer, by path: how many heads it has, and a context manager within which one is masked."""
    found = {}
    for layer in model._flatten_layers():
        head_kernel = getattr(layer, "head_kernel", None)
        if layer.name == "attention_output" and len(layer.kernel.shape) > 2:
            path, heads = layer.path.rpartition("/")[0], layer.kernel.shape[0]
            without = functools.partial(_without_rows, layer)
        elif getattr(head_kernel, "heads", None) is not None:
            path, heads = layer.path, head_kernel.shape[head_kernel.heads.axis]
            without = functools.partial(_without_output, model, layer, heads)
        else:
            continue
        name, times = path, 0
        while name in found:
            times += 1
            name = f"{path}_{times}"
        found[name] = heads, without
    return found


@contextlib.contextmanager
def _without_rows(projection, head):
    """Within it, the head's part of an output kernel `(h, d, ...)` is zero; and of what LoRA adds to the kernel."""
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
def _without_output(model, layer, heads, head):
    """Within it, the head's part of a layer's output `(B, h, d)` is zero."""
    call, kept, calls = layer.call, (np.arange(heads) != head)[:, None], []

    def masked_call(*args, **kwargs):
        calls.append(args)
        outputs = call(*args, **kwargs)
        output, *others = outputs if isinstance(outputs, tuple) else (outputs,)
        output = keras.ops.where(kept, output, keras.ops.zeros_like(output))
        return (output, *others) if others else output

    layer.call = masked_call
    _compile_anew(model)
    try:
        yield
    finally:
        del layer.call  # that of the class again
        _compile_anew(model)
    if not calls:
        raise ValueError(
            f"`evaluate` must run the layer {layer.path!r} anew, as `model.evaluate`, `model.predict` and `model(...)` "
            "do; the layer has no output projection to be masked in a function that was compiled before. "
            "Received: an `evaluate` that never called it"
        )


def _compile_anew(model):
    if isinstance(model, keras.Model):
        model.test_function = model.predict_function = None
