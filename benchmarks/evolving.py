"""Training step with evolving attention, compared with the same model without it, in time and operations.

    python -m benchmarks.evolving [--quick] [--only transformer|resnet]

A step is forward pass, loss, backward pass and update by `train_on_batch`. Operations are those of matrix products and
convolutions in the forward pass. Wang et al. 2021 count 1% more for EA-Transformer-Base and 5% for EA-AA-ResNet-50.
"""

import argparse
import functools

import numpy as np

from benchmarks import timing
from benchmarks.steps import LENGTH, SENTENCES, translator

IMAGES = 4


def transformers():
    """Returns the Transformer `base` with the paper's settings."""
    from keras_headattn.layers import EvolvingAttention, MultiHeadAttention

    evolving = functools.partial(EvolvingAttention, 8, 64, beta=0.1)
    templates = {
        "Transformer": dict(attention=MultiHeadAttention(8, 64)),
        "EA-Transformer": dict(
            attention=evolving(alpha=0.5),
            decoder_attention=evolving(alpha=0, role="decoder"),
            cross_attention=evolving(alpha=0, role="cross"),
        ),
    }
    for name, template in templates.items():
        yield name, *translator(**template)


def resnets():
    """Returns ResNet-50 with attention, at 224 x 224."""
    from benchmarks.resnets import network
    from keras_headattn.training import Model

    rng = np.random.default_rng(0)
    images = rng.normal(size=(IMAGES, 224, 224, 3)).astype("float32")
    labels = rng.integers(0, 1000, IMAGES)
    for name in ("ResNet50", "AAResNet50", "EAAAResNet50"):
        net = network(name)
        yield name, Model(net.input, net.output), images, labels


def cases(models, jit_compile):
    """Returns training steps by name, and the forward pass's operations."""
    import keras
    import tensorflow as tf

    from benchmarks.flops import count_flops

    steps, flops = {}, {}
    for name, model, x, labels in models:
        from_logits = "Transformer" in name
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits), jit_compile=jit_compile)
        steps[name] = timing.timed(functools.partial(model.train_on_batch, x, labels))
        specs = keras.tree.map_structure(lambda array: tf.TensorSpec(array.shape, array.dtype), x)
        flops[name] = count_flops(model, specs)
    return steps, flops


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    parser.add_argument("--only", choices=("transformer", "resnet"), help="writes nothing")
    options = parser.parse_args()
    limits = dict(min_rounds=3, max_rounds=3) if options.quick else dict(min_rounds=5, max_rounds=25, max_seconds=60)
    timing.limit_threads(timing.cores())
    families = {"transformer": (transformers, "Transformer"), "resnet": (resnets, "AAResNet50")}
    rows = []
    for family, (models, plain) in families.items():
        for jit_compile in (False, True) if options.only in (None, family) else ():
            steps, flops = cases(models(), jit_compile)
            rounds = timing.run_rounds(steps, plain, **limits)
            for name in steps:
                ratio, spread = rounds.ratio(name, plain)
                more = f"{flops[name] / flops[plain]:.3f}"
                seconds = f"{rounds.median(name):.2f}"
                rows.append([name, "yes" if jit_compile else "no", seconds, f"{ratio:.2f} ± {spread:.0%}", more])
    timing.report(
        None if options.quick or options.only else "evolving",
        "# Cost of evolving attention",
        f"Transformer `base` on {SENTENCES} x {LENGTH} tokens either side; ResNet-50 on {IMAGES} images of 224 x 224; "
        f"{timing.cores()} threads. Ratios to the model without evolving attention, for ResNets AA-ResNet50.",
        timing.table(["", "XLA", "s a step", "time", "operations"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
