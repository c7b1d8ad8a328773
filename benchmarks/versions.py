"""This checkout compared with another one: layers, training steps, searches and single calls.

    python -m benchmarks.versions FOLDER [--layers] [--quick]

Each version runs in its own process with its own benchmarks; they take turns. FOLDER is a checkout of the other
version, for example by `git worktree add FOLDER COMMIT`. Layers are those of `head_cost`, forward and backward,
compiled by XLA; steps those of `training`, `evolving` and `disentangled`; searches those of `decoding`. A single call
is one of a layer in eager mode on 2 x 8 tokens: little but Python. `--layers` compares all layers that both versions
have, and nothing else.
"""

import argparse
import contextlib
import pathlib
import sys

from benchmarks import timing

LAYERS = ("MultiHead", "Interacting", "TalkingHeads", "Interacting, pairwise")
HEADS, MANY_HEADS, SEQUENCE = 8, 64, 128
SEARCHES = ("greedy, B = 1", "beam 4, B = 8")
CALLS = 200


def cases(checkout, only_layers):
    """Returns functions by name, all of the checkout's modules."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("benchmarks", "keras_headattn")]:
        del sys.modules[name]
    sys.path.insert(0, checkout)
    import keras_headattn
    from benchmarks import decoding, disentangled, evolving, head_cost, training

    assert pathlib.Path(keras_headattn.__file__).is_relative_to(checkout)
    if only_layers:
        return {
            f"{variant}, {heads} heads": head_cost.forward_and_backward(head_cost.layer(variant, heads), SEQUENCE)
            for variant in head_cost.VARIANTS
            for heads in (HEADS, MANY_HEADS)
            if head_cost.map_bytes(variant, heads, SEQUENCE) < head_cost.MAX_BYTES / 4
        }
    made = {}
    for variant in LAYERS:
        layer = head_cost.layer(variant, HEADS)
        made[f"layer: {variant}"] = head_cost.forward_and_backward(layer, SEQUENCE)
        made[f"single call: {variant}"] = calls(head_cost.layer(variant, HEADS))
    for name, step in training.our_cases().items():
        made[f"training: {name.removeprefix('this library').strip(', ') or 'no XLA'}"] = step
    steps, _ = evolving.cases(evolving.transformers(), True)
    made |= {f"training: {name}": steps[name] for name in steps if name.startswith("EA")}
    size = dict(num_layers=2, hidden_dim=256, intermediate_dim=512)
    made["training: disentangled"] = disentangled.step({}, heads=4, **size)
    for (setting, variant), search in decoding.our_cases(SEARCHES).items():
        made[f"search: {setting}, {variant}"] = search
    return made


def calls(layer):
    import keras

    x = keras.random.normal((2, 8, 64))
    layer(x, x)

    def run():
        for _ in range(CALLS):
            layer(x, x)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="checkout of the other version")
    parser.add_argument("--layers", action="store_true", help="all layers, and nothing else")
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    arguments = parser.parse_args()
    other = arguments.folder.resolve()
    if not (other / "benchmarks").is_dir():
        parser.error(f"FOLDER must be a checkout of the library. Received: {arguments.folder}")
    here = pathlib.Path(__file__).resolve().parents[1]
    limits = (
        dict(min_rounds=3, max_rounds=3) if arguments.quick else dict(min_rounds=7, max_seconds=20, max_spread=0.01)
    )
    rows = []
    with contextlib.ExitStack() as stack:
        workers = {
            name: stack.enter_context(
                timing.Worker("benchmarks.versions:cases", str(folder), arguments.layers, threads=timing.cores())
            ).cases
            for name, folder in (("this", here), ("other", other))
        }
        for case in filter(workers["other"].get, workers["this"]):
            rounds = timing.run_rounds({name: made[case] for name, made in workers.items()}, "other", **limits)
            ratio, spread = rounds.ratio("this", "other")
            rows.append([case, f"{rounds.median('other') * 1000:,.0f}", f"{ratio:.2f} ± {spread:.0%}"])
            print(" | ".join(rows[-1]), flush=True)
    timing.report(
        None if arguments.quick else "versions_layers" if arguments.layers else "versions",
        "# This version against another",
        f"Time of this version as a multiple of the other's; below 1 is faster. A single call is the time of {CALLS}.",
        timing.table(["", "other version, ms", "time"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
