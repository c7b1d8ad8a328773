"""Scaling of training over workers, by arithmetic: bytes summed against computation per step.

    python -m benchmarks.scaling

prints the table of docs/distributed.md. Nothing is measured; assumptions are named constants.
"""

from keras_headattn.models import SIZES

# Assumptions.
VOCABULARY = 10_000  # shared, and tied to the output layer
TOKENS = 4_096  # target tokens a GPU and step, and as many source tokens
LENGTH = 32  # tokens of a sentence
FLOPS = 50e12  # floating-point operations a second that a GPU sustains
GPUS = 16
HOSTS = 2
NVLINK = 200e9  # bytes a second between the GPUs of a host
NETWORK = 12.5e9  # bytes a second between hosts: 100 Gbit/s


def parameters(num_layers, hidden_dim, intermediate_dim, num_heads=None, vocabulary=VOCABULARY):
    """Returns the number of parameters of a pre-norm `Transformer` with one tied embedding."""
    norm = 2 * hidden_dim
    attention = 4 * hidden_dim * (hidden_dim + 1)
    feed_forward = 2 * hidden_dim * intermediate_dim + hidden_dim + intermediate_dim
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocabulary * hidden_dim + num_layers * (encoder + decoder) + 2 * norm


def step_flops(size, tokens=TOKENS, length=LENGTH):
    """Returns a replica's operations per step: 6 per parameter and token, 12 per attended position and unit."""
    attention = 12 * length * size["hidden_dim"] * 3 * size["num_layers"]
    return tokens * (6 * parameters(**size) + attention)


def all_reduced_bytes(size, replicas=GPUS):
    """Returns the bytes each replica sends per step to sum float32 gradients in a ring."""
    return 2 * (replicas - 1) / replicas * 4 * parameters(**size)


def table():
    """Returns lines of Markdown, a row for each named size."""
    lines = [
        "| size | million parameters | MB sent a step | ms of computation | ms to send, one host | two hosts "
        "| efficiency, one host | two hosts |",
        "|---|" + "---:|" * 7,
    ]
    for name, size in SIZES.items():
        compute = step_flops(size) / FLOPS
        on_one = all_reduced_bytes(size, GPUS // HOSTS) / NVLINK
        on_two = all_reduced_bytes(size) / NETWORK
        lines.append(
            f"| {name} | {parameters(**size) / 1e6:.1f} | {all_reduced_bytes(size) / 1e6:.0f} | {1e3 * compute:.1f} "
            f"| {1e3 * on_one:.1f} | {1e3 * on_two:.1f} | {compute / (compute + on_one):.0%} "
            f"| {compute / (compute + on_two):.0%} |"
        )
    return "\n".join(lines)


def least_tokens(efficiency=0.9, bandwidth=NETWORK):
    """Returns the target tokens per GPU and step for this efficiency, with many replicas and short sentences.

    The number of parameters cancels out.
    """
    return efficiency / (1 - efficiency) * 8 / bandwidth * FLOPS / 6


if __name__ == "__main__":
    print(table())
    for bandwidth in (NVLINK, NETWORK, NETWORK / 10):
        print(f"90% at {bandwidth / 1e9:g} GB/s: {least_tokens(bandwidth=bandwidth):,.0f} tokens a GPU and step")
