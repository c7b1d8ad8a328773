"""Score, size and time of a finished run's model with fewer heads, without further training.

    python -m recipes.translate --run runs/multi30k ...
    python -m benchmarks.pruning runs/multi30k [--by gradient ablation] [--also translating export] [--quick]

The run's model is pruned to shares of its heads, each written as a run of its own below `--folder`, scored on the
run's first test set and timed. Runs and scores that are there are not made again.
"""

import argparse
import functools
import importlib
import pathlib
import re

from benchmarks import timing

SHARES = (1, 0.75, 0.5, 0.25)
SENTENCES = 32  # of a batch that is translated
WRITTEN = 24  # tokens of each
LABELS = {"gradient": "ranked by the gradient of the loss", "ablation": "ranked by the loss without the head"}


def recipe_of(folder):
    """Returns the `Recipe` of a run."""
    from keras_headattn._files import read_json

    name = read_json(pathlib.Path(folder, "config.json"))["recipe"]
    return importlib.import_module(f"recipes.{name}.__main__").RECIPE


def pruned_runs(recipe, folder, output, by, shares):
    """Writes runs with these shares of heads, and returns the run, settings and model of each share."""
    from keras_headattn.analysis import prune_heads
    from recipes.engine.pruning import rank_heads, write_run

    run, config = recipe.open(folder)
    paths = {share: output / f"{run.folder.name}_{by}_{share}" for share in shares}
    if not all(path.exists() for path in paths.values()):
        model = run.load_model()
        importance = rank_heads(run, config, model, by)
    runs = {}
    for share, path in paths.items():
        if not path.exists():
            write_run(run, config, prune_heads(model, importance, share), path)
        pruned, pruned_config = recipe.open(path, {"export": str(output / "exports" / path.name), "samples": 0})
        runs[share] = pruned, pruned_config, pruned.load_model()
    return runs


def score(run, config, measure):
    """Returns the name of the run's first test set, and of its first measure, or the given one, and the value."""
    if not run.scores():
        run.recipe.evaluate(run, config)
    name, scores = next(iter(run.scores().items()))
    measure = measure or next(iter(scores))
    return name, measure, scores[measure]


def exported_bytes(run, config, model):
    """Returns the size of the new SavedModel."""
    from recipes.engine.exporting import export

    export(run, config, model, functools.partial(run.recipe.write, run, config))
    newest = max(pathlib.Path(config.export_folder).glob("[0-9]*"), key=lambda version: int(version.name))
    return sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())


def what_trains(recipe, config):
    """Returns a batch of validation, and the function of a model that returns what is trained around it."""
    from recipes.engine.session import Rereading, Stopped

    class Taking(Rereading):
        def fit(self, batches, validation, model, *, trainer, **_):
            self.taken = next(iter(validation.dataset()))[0], trainer
            raise Stopped

    taking = Taking(config, recipe)
    taking.run()
    return taking.taken


def forward_pass(trainer, model, batch):
    """Returns a timed call of the compiled forward pass."""
    import tensorflow as tf

    trained = trainer(model)
    forward = tf.function(lambda x: trained(x, training=False), jit_compile=True, autograph=False)
    return timing.timed(lambda: forward(batch))


def translation(run, config, model):
    """Returns a timed call that translates a batch, with as many tokens whatever the model writes."""
    from recipes.translate.corpora import load_tests
    from recipes.translate.text import load_translator

    sentences = next(iter(load_tests(config).values())).source[:SENTENCES]
    search = config.search_arguments | {"min_length": WRITTEN - 1}
    translator = load_translator(run, config.changed({"max_length": WRITTEN, "search_arguments": search}), model)
    return timing.timed(functools.partial(translator, sentences))


def times(cases, quick):
    """Returns the milliseconds and the ratio to the whole model of each share, as cells and to draw."""
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=9, max_rounds=40, max_seconds=60)
    rounds = timing.run_rounds(cases, 1, **limits)
    ratios = {share: rounds.ratio(share, 1) for share in cases}
    cells = {
        share: [f"{1000 * rounds.median(share):.1f}", f"{ratio:.2f} ± {spread:.0%}"]
        for share, (ratio, spread) in ratios.items()
    }
    return cells, (1000 * rounds.median(1), {share: ratio for share, (ratio, _) in ratios.items()})


def table(scores, measure, weights, megabytes, measured):
    """Returns the Markdown table: a row for each share."""
    header = ["heads left", *(f"{measure}, by {by}" for by in scores), "million weights"]
    header += ["SavedModel, MB"] if megabytes else []
    header += [column for name in measured for column in (f"{name}, ms", "of all heads")]
    rows = [
        [
            f"{share:.0%}",
            *(f"{by_share[share]:.3g}" for by_share in scores.values()),
            f"{count:.2f}",
            *([f"{megabytes[share]:.1f}"] if megabytes else []),
            *(cell for cells, _ in measured.values() for cell in cells[share]),
        ]
        for share, count in weights.items()
    ]
    return timing.table(header, rows)


def draw(scores, measured, measure, title, path):
    """Draws the score of each ranking, and the times relative to the whole model's, against the share of heads."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    figure.suptitle(title)
    for by, by_share in scores.items():
        left.plot([100 * share for share in by_share], list(by_share.values()), "o-", label=LABELS[by])
    left.set_ylabel(measure)
    for name, (milliseconds, ratios) in measured.items():
        label = f"{name}, {milliseconds:.0f} ms with all heads"
        right.plot([100 * share for share in ratios], [100 * ratio for ratio in ratios.values()], "o-", label=label)
    right.set_ylabel("Time (% of that with all heads)")
    for axes in (left, right):
        axes.set_xlabel("Heads left (%)")
        axes.set_xticks([100 * share for share in SHARES])
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a finished run")
    parser.add_argument("--by", nargs="+", choices=list(LABELS), default=["gradient"], help="rankings [gradient]")
    parser.add_argument("--also", nargs="+", choices=("translating", "export"), default=[], help="further columns")
    parser.add_argument("--measure", help="name of the score [the first in scores.json]")
    parser.add_argument("--folder", type=pathlib.Path, default="runs/pruned", help="of the pruned runs [runs/pruned]")
    parser.add_argument("--quick", action="store_true", help="half of the heads, three rounds; writes no report")
    options = parser.parse_args()
    timing.limit_threads(timing.cores())
    shares = (1, 0.5) if options.quick else SHARES
    options.folder.mkdir(parents=True, exist_ok=True)
    recipe, scores = recipe_of(options.run), {}
    for by in reversed(options.by):
        runs = pruned_runs(recipe, options.run, options.folder, by, shares)
        results = {share: score(run, config, options.measure) for share, (run, config, _) in runs.items()}
        scores[by] = {share: value for share, (_, _, value) in results.items()}
    test, measure, _ = results[1]
    _, config = recipe.open(options.run)
    batch, trainer = what_trains(recipe, config)
    cases = {"forward pass": {share: forward_pass(trainer, model, batch) for share, (*_, model) in runs.items()}}
    if "translating" in options.also:
        cases["translating"] = {share: translation(*run) for share, run in runs.items()}
    measured = {name: times(functions, options.quick) for name, functions in cases.items()}
    megabytes = {share: exported_bytes(*run) / 1e6 for share, run in runs.items()} if "export" in options.also else {}
    weights = {share: model.count_params() / 1e6 for share, (*_, model) in runs.items()}
    name = None if options.quick else f"pruning_{recipe.name}"
    described = re.sub(r"[^ ]*/", "", config.description)  # without folders
    shapes = " and ".join(str(tuple(part.shape)) for part in (batch.values() if isinstance(batch, dict) else [batch]))
    written = f" Translating: {SENTENCES} sentences, {WRITTEN} tokens each." if len(measured) > 1 else ""
    timing.report(
        name,
        f"# Fewer heads, recipes.{recipe.name}",
        f"A finished run ({described}), whose heads are ranked on the validation set and pruned in every layer, "
        f"without further training. {measure} is of {test}. Forward pass of a batch {shapes} by XLA in "
        f"{config.precision}, {timing.cores()} threads.{written}",
        table(scores, measure, weights, megabytes, measured),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )
    if name:
        path = timing.RESULTS.parents[1] / "docs" / f"{name}.png"
        drawn = {name: timings for name, (_, timings) in measured.items()}
        draw(scores, drawn, measure, f"recipes.{recipe.name}: fewer heads, without further training", path)


if __name__ == "__main__":
    main()
