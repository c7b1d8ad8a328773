"""Scores of the recipes' synthetic tasks over three seeds, as the recipes' pages quote them.

    python -m benchmarks.synthetic                    all tasks, about two hours of one core
    python -m benchmarks.synthetic translate graphs   some; the report has those that are finished

Runs are kept in runs/synthetic, or in --runs; finished ones are not repeated.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from benchmarks.timing import machine, report, table

LANGUAGE = (
    "glue --built-in --task language --train-examples 100 --checkpoint {runs}/pretrain/seed=0 --learning-rate 1e-3 "
    "--epochs 40 --max-length 64 --batch-size 16"
)
TASKS = {
    "translate": ("translate --attention interacting", ("exact match", "BLEU")),
    "translate_quick_multi_head": ("translate --quick --attention multi_head", ("exact match",)),
    "translate_quick_evolving": (
        "translate --quick --attention evolving --attention-arguments alpha=0.5 --decoder-attention multi_head "
        "--cross-attention multi_head",
        ("exact match",),
    ),
    "translate_quick_disentangled": ("translate --quick --attention disentangled_mask", ("exact match",)),
    "classify_quick": ("classify --quick", ("accuracy",)),
    "classify": ("classify", ("accuracy",)),
    "glue_acceptability": ("glue --task acceptability", ("score",)),
    "glue_paraphrase": ("glue --task paraphrase --epochs 8", ("f1", "accuracy")),
    "glue_similarity": ("glue --task similarity", ("score",)),
    "rationales": ("rationales", ("accuracy",)),
    "graphs": ("graphs", ("facts told", "wrong facts")),
    "imagenet": ("imagenet", ("accuracy",)),
    "pretrain": ("pretrain", ("generator_loss", "masked_accuracy", "detection_auc")),
    "language": (LANGUAGE, ("accuracy", "auc_roc", "loss")),
    "language_random": (f"{LANGUAGE} --no-checkpoint-weights", ("accuracy", "auc_roc", "loss")),
}


def train(name, runs, seeds):
    """Trains a task with all seeds."""
    arguments = TASKS[name][0].format(runs=runs).split()
    seeds = ["--seeds", *map(str, seeds)]
    command = [sys.executable, "-m", f"recipes.{arguments[0]}", *arguments[1:], *seeds, "--run", f"{runs}/{name}"]
    subprocess.run(command, check=True)


def rows(runs):
    """Returns rows of finished tasks: arguments, measure, mean and deviation, and each seed."""
    for name, (arguments, measures) in TASKS.items():
        path = pathlib.Path(runs, name, "seeds.json")
        tests = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for test, scores in tests.items():
            for measure in measures:
                values = list(scores[measure]["values"].values())
                digits = 1 if max(values) > 2 else 3
                mean, deviation = scores[measure]["mean"], scores[measure]["deviation"] or 0
                texts = [f"{value:.{digits}f}" for value in values]
                where = f"{test}: {measure}" if len(tests) > 1 else measure
                yield (
                    arguments.format(runs=runs),
                    where,
                    f"{mean:.{digits}f} ± {deviation:.{digits}f}",
                    ", ".join(texts),
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--runs", default="runs/synthetic", help="folder of the runs (default: %(default)s)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    if unknown := set(arguments.tasks) - set(TASKS):
        parser.error(f"tasks are {', '.join(TASKS)}. Received: {', '.join(sorted(unknown))}")
    for name in arguments.tasks:
        train(name, arguments.runs, arguments.seeds)
    results = table(["python -m recipes.", "measure", "mean ± deviation", "seeds"], rows(arguments.runs))
    report("synthetic", "# Synthetic tasks", results, "\n".join(machine("tensorflow", "keras", "numpy")))


if __name__ == "__main__":
    main()
