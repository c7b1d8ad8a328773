"""Heads in a language model: what each costs, beside its loss.

    python -m benchmarks.language_model_heads time [--quick]
    python -m benchmarks.language_model_heads writing [--quick]
    python -m benchmarks.language_model_heads memory [--quick]
    python -m benchmarks.language_model_heads table

`time` measures training steps of the models of `recipes.sweep lm_heads`, which have equal parameters, and the bytes
that a token takes in their caches; `writing` the time of texts that these models write; `memory` the most memory that
a step needs above what the process has, weights, moments and data, before it. `table` prints the table of
docs/results/language_models.md, the sweep's scores beside these costs, and draws it.
"""

import argparse
import functools
import math
import pathlib

from benchmarks import timing
from benchmarks.language_models import ids, memory_table, our_trainer, print_memory, training_step

DOCS = pathlib.Path(__file__).parents[1] / "docs"
VOCABULARY = 65  # characters
ROWS, LENGTH = 12, 64  # of a batch of nanoGPT's model for a CPU
PROMPTS, WRITTEN = (8, 64), 192  # rows and tokens of prompts, and tokens written after each
OF_MEMORY = 32, 256  # rows and tokens of a step whose memory is measured
WITH_ROTARY = "multi_head, rotary", "interleaved, rotary"  # positions
DRAWN = 0.1  # the largest difference of losses in the picture


def head_model(name, length):
    """Returns the trainer and the model of a head in `recipes.sweep lm_heads`, for texts of this length."""
    from recipes.engine.config import override
    from recipes.lm.configs import heads, nano_cpu

    head, _, positions = name.partition(", ")
    row = (heads.ROTARY if positions else heads.ROWS)[head] | {"length": length}
    if most := row["attention_arguments"].get("max_length"):
        row["attention_arguments"] = row["attention_arguments"] | {"max_length": max(most, length)}
    return our_trainer(override(nano_cpu.CONFIG, row), VOCABULARY)


def head_step(name, rows, length):
    """Returns a training step of a head's model, and the model."""
    trainer, model = head_model(name, length)
    return training_step(trainer, ids(rows, length + 1, VOCABULARY)), model


def head_writer(name):
    """Returns a function that writes texts with a head's model."""
    from keras_headattn.decoding import Generator

    generator = Generator(head_model(name, PROMPTS[1] + WRITTEN)[1], max_length=WRITTEN, temperature=0)
    generator.compile(jit_compile=True)
    return functools.partial(generator.predict, ids(*PROMPTS, VOCABULARY), verbose=0)


def head_steps(names):
    """Returns a training step of each head's model by name, and its parameters and bytes of a token in its cache."""
    import keras

    cases, sizes = {}, {}
    for name in names:
        cases[name], model = head_step(name, ROWS, LENGTH)
        caches = [keras.tree.flatten(model.init_cache(1, length)) for length in (LENGTH, LENGTH // 2)]
        large, small = (sum(x.dtype.size * math.prod(x.shape) for x in cache) for cache in caches)
        sizes[name] = model.count_params(), (large - small) // (LENGTH // 2)
    return cases, sizes


def names_of_heads(quick):
    from recipes.lm.configs.heads import ROWS as NAMES

    return list(NAMES)[:3] if quick else list(NAMES)


def measure_rounds(cases, quick, max_seconds):
    """Returns the median seconds of each case, and a text of its ratio to the first, multi-head attention's."""
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(max_rounds=60, max_seconds=max_seconds)
    first = next(iter(cases))
    timed = {name: timing.timed(case) for name, case in cases.items()}
    rounds = timing.run_rounds(timed, first, 0.02, **limits)
    ratios = {name: "{:.2f} ± {:.0%}".format(*rounds.ratio(name, first)) for name in cases}
    return {name: (rounds.median(name), ratios[name]) for name in cases}


def measure_time(quick):
    timing.limit_threads(timing.cores())
    cases, sizes = head_steps([*names_of_heads(quick), *WITH_ROTARY])
    rows = []
    for name, (seconds, ratio) in measure_rounds(cases, quick, 90).items():
        parameters, cached = sizes[name]
        rows.append([name, f"{parameters:,}", f"{1e3 * seconds:.0f}", ratio, f"{cached:,}"])
    return [
        "# Heads in a language model",
        f"Training steps of the models of `recipes.sweep lm_heads` on {ROWS} rows of {LENGTH} tokens, as `recipes.lm` "
        f"trains on a CPU, and the bytes of a token in the caches of its four blocks, float32.",
        timing.table(["", "parameters", "ms a step", "time", "bytes a token"], rows),
    ]


def measure_writing(quick):
    timing.limit_threads(timing.cores())
    measured = measure_rounds({name: head_writer(name) for name in names_of_heads(quick)}, quick, 300)
    tokens = PROMPTS[0] * WRITTEN
    rows = [[name, f"{tokens / seconds:,.0f}", ratio] for name, (seconds, ratio) in measured.items()]
    return [
        "# Writing of heads in a language model",
        f"{PROMPTS[0]} texts of {WRITTEN} tokens after prompts of {PROMPTS[1]}, with the models of `recipes.sweep "
        "lm_heads`, greedily, with XLA, float32.",
        timing.table(["", "tokens a second", "time"], rows),
    ]


def measure_memory(quick):
    return [
        "# Memory of heads in a language model",
        f"A training step of the models of `recipes.sweep lm_heads` on {OF_MEMORY[0]} x {OF_MEMORY[1]} tokens, "
        "float32, AdamW: the most memory that it needs above weights, moments and data.",
        memory_table("benchmarks.language_model_heads", names_of_heads(quick), "multi_head", quick),
    ]


def read_column(report, column):
    """Returns a column of the last table of a report: dictionary of the name of a row to the text."""
    lines = (timing.RESULTS / f"{report}.md").read_text(encoding="utf-8").split("| --- |")[-1].splitlines()[1:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {row[0]: row[column] for row in cells}


def scores_of_heads():
    """Returns the `Table` of `recipes.sweep lm_heads`, and the cells that have scores in its file."""
    from recipes.engine.tables import Cell, read_csv
    from recipes.lm.configs.heads import TABLES

    scores = read_csv(DOCS / "results" / "lm_heads.csv")
    cells = [Cell(*place, of_run) for place, of_run in scores.items() if place[2]]  # seed 0 chose the learning rate
    return TABLES["lm_heads"], cells


def heads_table():
    """Returns the table of docs/results/language_models.md, of heads by their loss."""
    from recipes.engine.tables import differences, paired_differences

    table, cells = scores_of_heads()
    low_rate, rate = table.columns
    time, cached = (read_column("language_model_heads", column) for column in (3, 4))
    writing = read_column("language_model_heads_writing", 2)
    memory = read_column("language_model_heads_memory", 2)
    of_low_rate, pairs = differences(cells, table, low_rate), paired_differences(cells, table, rate)
    rows = []
    for name, (mean, _, high, p) in sorted(differences(cells, table, rate).items(), key=lambda item: item[1][0]):
        other, _, _, p_of_other = of_low_rate.get(name, [math.nan] * 4)
        of_rate = (
            [f"{mean:+.3f}", "–"]
            if math.isnan(p)
            else [f"{mean:+.3f} ± {high - mean:.3f}", f"{p:.1g}" if p > 0.001 else f"{p:.0e}"]
        )
        of_other = "–" if math.isnan(other) else f"**{other:+.3f}**" if p_of_other < 0.05 else f"{other:+.3f}"
        costs = [column.get(name, "–").split(" ")[0] for column in (time, writing, memory, cached)]
        rows.append([name, len(pairs[name]), *of_rate, of_other, *costs])
    header = ["heads", "seeds", "difference", "p", f"at {low_rate}", "time", "writing", "memory", "cache"]
    return timing.table(header, rows)


def draw_heads():
    """Draws the losses of heads against the time and the memory of a training step, and the bytes of a token."""
    from keras_headattn.utils import new_figure
    from recipes.engine.tables import differences

    table, cells = scores_of_heads()
    rate = list(table.columns)[-1]
    found = differences(cells, table, rate)
    costs = {
        "time of a step": read_column("language_model_heads", 3),
        "memory of a step": read_column("language_model_heads_memory", 2),
        "cache of a token": read_column("language_model_heads", 4),
    }
    title = (
        f"Loss and cost of heads, learning rate {rate}: names where p < 0.05; what loses more than {DRAWN} is left out"
    )
    figure = new_figure(13, 5, title)
    all_axes = figure.subplots(1, len(costs), sharey=True)
    for axes, (label, texts) in zip(all_axes, costs.items(), strict=True):
        values = {name: float(text.split(" ")[0].replace(",", "")) for name, text in texts.items()}
        shares = {name: values[name] / values["multi_head"] for name in found.keys() & values if found[name][0] < DRAWN}
        middle = (min(shares.values()) + max(shares.values())) / 2
        for name, x in shares.items():
            mean, _, _, p = found[name]
            axes.plot(x, mean, "o", color="black" if p < 0.05 else "gray", markersize=4)
            if p < 0.05:
                place = dict(xytext=(-5, 0), ha="right") if x > middle else dict(xytext=(5, 0))
                axes.annotate(name, (x, mean), textcoords="offset points", va="center", fontsize=8, **place)
        axes.plot(1, 0, "D", color="C0")
        axes.set_xlabel(f"{label} (multi_head: 1)")
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("loss, difference from multi_head")
    return figure


MEASURED = {
    "time": (measure_time, "language_model_heads"),
    "writing": (measure_writing, "language_model_heads_writing"),
    "memory": (measure_memory, "language_model_heads_memory"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=(*MEASURED, "table"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="few cases, three rounds; writes nothing")
    options = parser.parse_args()
    if options.case:
        return print_memory(head_step(options.case, *OF_MEMORY)[0])
    if options.part == "table":
        from keras_headattn._figures import write_figure

        write_figure(DOCS / "lm_heads_cost.png", draw_heads())
        return print(heads_table())
    measure, name = MEASURED[options.part]
    paragraphs = measure(options.quick) + [timing.SPREAD] * (options.part != "memory")
    timing.report(None if options.quick else name, *paragraphs, "\n".join(timing.machine("tensorflow", "keras")))


if __name__ == "__main__":
    main()
