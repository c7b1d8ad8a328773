"""Cost of head interaction: forward and backward time of each layer, compared with Keras's own.

    python -m benchmarks.head_cost [--quick]

Self-attention of width 512, 2,048 tokens, key_dim = 512 / heads, float32, compiled by XLA: output, and gradients of all
weights and the input; of RealFormer also its map, and the gradient of the previous one. The ratio of floating-point
operations, counted from the formulas, is the ratio of times if matrix products alone took time.
"""

import argparse
import functools

from benchmarks import timing

WIDTH, TOKENS = 512, 2048
VARIANTS = ("MultiHead", "GroupedQuery", "KnockingHeads", "MultiHeadExplicit", "Differential", "MixtureOfHeads")
VARIANTS += ("Interacting", "TalkingHeads", "MultiToken", "ReAttention", "Collaborative", "Interleaved", "PairedHeads")
VARIANTS += ("RealFormer", "Synthesizer, dense", "Synthesizer, random", "DynamicallyComposable", "Luong")
VARIANTS += ("Interacting, pairwise",)
MAX_BYTES = 4e9


def groups(heads):
    """Returns the key and value heads of grouped queries, of which four share one."""
    return max(1, heads // 4)


def layer(variant, heads):
    import keras

    from keras_headattn import layers

    make = {
        "stock": keras.layers.MultiHeadAttention,
        "MultiHead": layers.MultiHeadAttention,
        "GroupedQuery": functools.partial(layers.GroupedQueryAttention, num_key_value_heads=groups(heads)),
        "KnockingHeads": layers.KnockingHeadsAttention,
        "MultiHeadExplicit": functools.partial(layers.MultiHeadExplicitAttention, num_components=heads // 2),
        "Differential": layers.DifferentialAttention,
        "MixtureOfHeads": layers.MixtureOfHeadsAttention,
        "Interacting": layers.InteractingHeadAttention,
        "TalkingHeads": layers.TalkingHeadsAttention,
        "MultiToken": layers.MultiTokenAttention,
        "ReAttention": layers.ReAttention,
        "Collaborative": functools.partial(layers.CollaborativeAttention, shared_dim=WIDTH // 2),
        "Interleaved": layers.InterleavedHeadAttention,
        "PairedHeads": layers.PairedHeadsAttention,
        "RealFormer": layers.RealFormerAttention,
        "Synthesizer, dense": functools.partial(layers.SynthesizerAttention, mixture="dense"),
        "Synthesizer, random": functools.partial(layers.SynthesizerAttention, mixture=("random", "dot_product")),
        "DynamicallyComposable": layers.DynamicallyComposableAttention,
        "Luong": layers.LuongAttention,
        "Interacting, pairwise": functools.partial(layers.InteractingHeadAttention, interaction="pairwise"),
    }[variant]
    if variant == "Luong":
        return make(num_heads=1, key_dim=WIDTH)
    if variant == "Differential":  # two maps a head: as many maps and as wide projections as the others
        return make(num_heads=heads // 2, key_dim=WIDTH // heads)
    return make(num_heads=heads, key_dim=WIDTH // heads)


def forward_and_backward(layer, length):
    """Returns a timed call of the compiled forward and backward pass."""
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(1)
    shapes = [(TOKENS // length, length, WIDTH)]
    if getattr(layer, "carries_logits", False):
        shapes.append((TOKENS // length, layer.num_heads, length, length))
    inputs, output_gradients = ([generator.normal(shape) for shape in shapes] for _ in range(2))

    def call(x, scores=None):
        chain = {} if scores is None else {"previous_logits": scores, "return_logits": True}
        return layer(x, x, training=True, **chain)

    call(*inputs)

    @tf.function(jit_compile=True, autograph=False)
    def gradients(inputs, output_gradients):
        sources = [*inputs, *(weight.value for weight in layer.trainable_weights)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(call(*inputs))
        return outputs, tape.gradient(outputs, sources, output_gradients)

    return timing.timed(lambda: gradients(inputs, output_gradients))


def operations(variant, heads, length):
    """Returns floating-point operations of products in the forward pass; the backward pass has twice as many."""
    projection = 2 * TOKENS * WIDTH * WIDTH
    pairs = TOKENS * length  # of a query token and a key token
    products = 4 * projection + 2 * 2 * pairs * WIDTH
    return {
        "stock": products,
        "MultiHead": products,
        "GroupedQuery": products - 2 * projection * (heads - groups(heads)) // heads,
        # Three matrices on the values of each head.
        "KnockingHeads": products + 3 * projection // heads,
        # Keys and values of half the heads, which are composed of them.
        "MultiHeadExplicit": products - projection + 2 * TOKENS * WIDTH * heads,
        "Differential": products,
        # One query projection of one head's width, after the kernels are added up.
        "Interacting": products - projection + projection // heads + WIDTH * WIDTH,
        "MixtureOfHeads": products + 2 * TOKENS * WIDTH * (heads + 2),
        "TalkingHeads": products + 2 * 2 * heads * heads * pairs,
        # A kernel of 6 queries and 11 keys for each head.
        "MultiToken": products + 2 * 6 * 11 * heads * pairs,
        "ReAttention": products + 2 * heads * heads * pairs,
        # Queries and keys half as wide, of which each head reads all.
        "Collaborative": products - projection + pairs * WIDTH * (heads - 2) + 2 * TOKENS * WIDTH * heads,
        # Two pseudo-tokens for each token: four times the pairs, and mixtures of heads before and after.
        "Interleaved": products + 3 * 2 * 2 * pairs * WIDTH + 4 * 2 * 2 * TOKENS * WIDTH * heads,
        # Twice the keys and values for each query.
        "PairedHeads": products + 2 * 2 * pairs * WIDTH,
        "RealFormer": products,
        # No key projection. A product with learned columns takes the place of that with keys.
        "Synthesizer, dense": products - projection,
        "Synthesizer, random": products,
        # Hidden layers, matrices of rank 2 and gates of queries and of keys; mixtures of logits and of weights.
        "DynamicallyComposable": products
        + 2 * 2 * 2 * TOKENS * heads * (5 * WIDTH + 16 * heads)
        + 2 * 2 * (heads + 8) * heads * pairs,
        "Luong": products,
        # Every pair of heads has logits and values, and the output projection reads them all.
        "Interacting, pairwise": (3 + heads) * projection + 2 * 2 * heads * pairs * WIDTH,
    }[variant]


def map_bytes(variant, heads, length):
    """Returns the memory of the maps: logits, weights and the gradients of both."""
    factors = {"Interacting, pairwise": heads, "Interleaved": 4, "PairedHeads": 2, "Luong": 1 / heads}
    return 4 * 4 * heads * factors.get(variant, 1) * TOKENS * length


def measure(length, heads, quick):
    """Returns a table column: for each variant, ratio of times, spread, and ratio of operations."""
    stock = forward_and_backward(layer("stock", heads), length)
    cells, seconds = [], None
    for variant in VARIANTS:
        if map_bytes(variant, heads, length) > MAX_BYTES:
            cells.append("too large")
            continue
        cases = {"stock": stock, variant: forward_and_backward(layer(variant, heads), length)}
        limits = dict(min_rounds=3, max_rounds=3) if quick else dict(max_seconds=5)
        rounds = timing.run_rounds(cases, "stock", **limits)
        seconds = seconds or rounds.median("stock")
        ratio, spread = rounds.ratio(variant, "stock")
        flops = operations(variant, heads, length) / operations("stock", heads, length)
        cells.append(f"{ratio:.2f} ± {spread:.0%} ({flops:.2f})")
    column = [f"{length}, {heads}", f"{seconds * 1000:.0f}", *cells]
    print(" | ".join(column), flush=True)
    return column


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two sizes, three rounds; writes nothing")
    quick = parser.parse_args().quick
    timing.limit_threads(timing.cores())
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it warns that one function is compiled for each layer
    lengths, all_heads = ([64], [4, 16]) if quick else ([64, 256], [2, 4, 8, 64])
    columns = [measure(length, heads, quick) for length in lengths for heads in all_heads]
    header, *rows = zip(["length, heads", "stock, ms", *VARIANTS], *columns, strict=True)
    timing.report(
        None if quick else "head_cost",
        "# Cost of the heads' interaction",
        "Forward and backward time, as a multiple of `keras.layers.MultiHeadAttention`'s; in brackets the same "
        f"multiple of floating-point operations. Self-attention, width {WIDTH}, {TOKENS:,} tokens in sequences of "
        f"a length, key_dim = {WIDTH} / heads, float32, XLA. Grouped queries have a key and value head for every four, "
        "multi-head explicit attention half as many components as heads, differential attention half as many heads, "
        "each with two maps, collaborative heads half as many shared features as the width, interleaved heads two "
        "pseudo-tokens for each token. RealFormer gets the scores of a previous block and passes on its own. Random "
        "Synthesizer attention has logits of products, too. Luong attention, scored by dot product, has one head, "
        f"{WIDTH} wide, in all columns.",
        timing.table(header, rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
