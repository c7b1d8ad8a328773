"""Sentence classification by a BiLSTM or a Transformer under additive multi-head attention: train, evaluate, export.

    python -m recipes.classify --quick          a minute, to see that everything works
    python -m recipes.classify                  the embedded task: which language a number is written in
    python -m recipes.classify --train train.csv --text-column review --label-column stars
    python -m recipes.classify --train train.csv --repulsive svgd --seeds 1 2 3 4 5
    python -m recipes.classify evaluate runs/classify
    python -m recipes.classify export runs/classify
    python -m recipes.classify classify runs/classify < sentences.txt

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After SIGTERM the state is saved and the exit code is 143.

Source: Lin et al. 2017, "A structured self-attentive sentence embedding"; An et al. 2020, "Repulsive attention",
sections B.2.1 and B.2.2. Settings of papers are in recipes/configs/: yelp, age, snli, twitter, wikipedia; also sst2,
sst5.
"""

import argparse
import functools
import itertools
import os
import signal
import sys

from recipes.engine.command import (
    add_finished,
    add_quick,
    add_training,
    chosen_settings,
    given_settings,
    run_command,
    starts_afresh,
)
from recipes.engine.config import override
from recipes.engine.quiet import quiet_tensorflow
from recipes.sentences.settings import DATA, GROUPS, ClassifyConfig

QUICK = dict(
    epochs=2,
    encoder="bilstm",
    num_layers=1,
    embedding_dim=32,
    embeddings=None,
    hidden_dim=32,
    attention_dim=32,
    num_heads=4,
    mlp_dim=64,
    factor_dim=32,
    dropout=0.1,
    optimizer="adam",
    learning_rate=5e-3,
    num_buckets=3,
    run="runs/quick",
    export="saved_models/quick_classify",
)
SMALLER = dict(max_examples=2_000, max_length=50, batch_size=32)
FILES = ("format", "header", "text_column", "second_column", "label_column", "drop_labels", "max_examples")
OPTIONS = {
    "evaluate": ("test", "tfds", "test_splits", *FILES),
    "export": ("export",),
}


def main(arguments=None):
    """Runs one sub-command; `train` where none is named."""
    run_command(_parser(), COMMANDS, arguments, filters=("classify",))


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.classify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    train = add_training(commands, ClassifyConfig, GROUPS, "number_words")
    add_quick(train, "a tiny model, two epochs, of your own text 2,000 examples")
    train.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        help="one run each, below the folder --run, without SavedModels; a table of means and deviations at the end",
    )
    add = functools.partial(add_finished, commands, cls=ClassifyConfig)
    add("evaluate", names=OPTIONS["evaluate"], help="measure a finished run on its test sets, or on others")
    add("export", names=OPTIONS["export"], help="write the SavedModel of a finished run again")
    classify = add("classify", names=(), help="the likeliest labels of the lines of a file, or standard input")
    classify.add_argument(
        "file", nargs="?", default="-", help="a text a line, two with a tab between where pairs are classified; .gz too"
    )
    classify.add_argument("--top", type=int, default=1, help="how many labels of each [1]")
    return parser


def _train(options):
    config = chosen_settings(options, ClassifyConfig, DATA, "number_words", QUICK, SMALLER)
    quiet_tensorflow(errors=False)
    if options.seeds:
        _train_seeds(config, options.seeds)
        return
    from recipes.sentences.training import train

    train(config, afresh=starts_afresh(options))


def _train_seeds(config, seeds):
    from recipes.sentences.seeds import train_seeds

    # Ends the run that is being trained, which saves its state.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    failed = train_seeds(config, seeds)
    if failed:
        reasons = [f"seed {seed}: {error}" for seed, error in failed.items()]
        sys.exit("\n".join([f"{len(failed)} of {len(seeds)} runs failed:", *reasons]))


def _evaluate(options):
    from recipes.sentences.data import load_tests, read_tests
    from recipes.sentences.evaluation import evaluate

    run, config, predictor = _finished(options)
    tests = read_tests(config, options.test) if hasattr(options, "test") else load_tests(config)
    if not tests:
        raise ValueError(f"The run in {run.folder} has no test set. Give --test.")
    evaluate(predictor, tests, run.labels(), run.results)


def _export(options):
    run, config, predictor = _finished(options)
    if not config.export:
        raise ValueError(f"The run in {run.folder} has no folder for SavedModels. Give --export. Received: export=None")
    from recipes.sentences.exporting import export

    export(config, predictor.classifier, predictor.tokenizer, run.labels())


def _classify(options):
    if options.file != "-" and not os.path.isfile(options.file):
        raise FileNotFoundError(f"There is no file {options.file}")
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    run, config, predictor = _finished(options)
    from keras_headattn._files import read_lines

    names = run.labels()
    if options.file == "-":
        sys.stdin.reconfigure(encoding="utf-8", newline="\n")
        lines = map(str.strip, sys.stdin)
    else:
        lines = read_lines(options.file)
    # Few at a time, so that a long file or a pipe shows its first labels soon.
    while texts := list(itertools.islice(lines, 256)):
        sides = zip(*map(_pair, texts), strict=True) if config.is_pair else (texts,)
        for row in predictor(*map(list, sides)):
            order = row.argsort()[::-1][: options.top]
            print("\t".join(f"{names[label]} {row[label]:.3f}" for label in order), flush=True)


def _pair(line):
    first, tab, second = line.partition("\t")
    if not tab:
        raise ValueError(f"A pair is two texts with a tab between. Received: {line[:60]!r}")
    return first, second


def _finished(options):
    """Run, settings and predictor of a finished run."""
    quiet_tensorflow(errors=False)
    from recipes.sentences.predicting import Predictor
    from recipes.sentences.run import Run
    from recipes.sentences.text import make_tokenizer

    run = Run(options.folder)
    config = run.config()
    given = given_settings(options, set(OPTIONS.get(options.command, ())) - {"test"})
    if "tfds" in given:
        given = {"train": (), "validation": (), "test": (), "embedded": False} | given
    config = override(config, given)
    return run, config, Predictor(run.load_model(), make_tokenizer(config, None, run.folder), config)


COMMANDS = {"train": _train, "evaluate": _evaluate, "export": _export, "classify": _classify}

if __name__ == "__main__":
    main()
