"""Translation with any attention of this library: train, evaluate, export, translate.

    python -m recipes.translate --quick          a minute, to see that everything works
    python -m recipes.translate                  the embedded task: English numbers and dates to German
    python -m recipes.translate --train train.en train.de --validation val.en val.de --test test.en test.de
    python -m recipes.translate prepare --records records/mine --train ... --validation ...
    python -m recipes.translate evaluate runs/translate
    python -m recipes.translate export runs/translate
    python -m recipes.translate translate runs/translate < sentences.txt

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After SIGTERM the state is saved and the exit code is 143.

Source of the default attention: Zhang et al. 2022, "Interacting-head attention". Settings of papers are in
recipes/configs/, with what they should score.
"""

import argparse
import functools
import itertools
import os
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
from recipes.translation.settings import DATA, GROUPS, TranslateConfig

QUICK = dict(
    epochs=2,
    num_layers=1,
    hidden_dim=64,
    intermediate_dim=128,
    validation_sentences=0,
    images=False,
    beam_size=2,
    records=None,
    run="runs/quick",
    export="saved_models/quick",
)
QUICK_TEXT = dict(
    max_sentences=5_000, vocabulary_size=2_000, tokens_per_batch=2048, learning_rate=4e-3, warmup_steps=100
)
EMBEDDED = "numbers"
DECODING = ("beam_size", "alpha", "max_length")
OPTIONS = {
    "evaluate": (*DECODING, "metrics", "embeddings", "test", "test_splits"),
    "export": (*DECODING, "export", "sample_sentences"),
    "translate": DECODING,
}


def main(arguments=None):
    """Runs one sub-command; `train` where none is named."""
    run_command(_parser(), COMMANDS, arguments, go_on=("train", "prepare"), filters=("translate",))


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.translate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    train = add_training(commands, TranslateConfig, GROUPS, EMBEDDED)
    add_quick(train, "a tiny model, two epochs, of your own text 5,000 pairs")
    what = "tokenise the training text into the folder --records, or go on with it; takes the options of train"
    add_training(commands, TranslateConfig, GROUPS, EMBEDDED, name="prepare", help=what)
    add = functools.partial(add_finished, commands, cls=TranslateConfig)
    add("evaluate", names=OPTIONS["evaluate"], help="score a finished run on its test sets, or on others")
    add("export", names=OPTIONS["export"], help="write the SavedModels of a finished run again")
    translate = add("translate", names=OPTIONS["translate"], help="translate a file, or standard input")
    translate.add_argument("file", nargs="?", default="-", help="one sentence a line, .gz too; none: standard input")
    translate.add_argument("--scores", action="store_true", help="a score and a tab before each translation")
    return parser


def _prepare(options):
    config = chosen_settings(options, TranslateConfig, DATA, EMBEDDED)
    if not config.records:
        raise ValueError("Give --records, the folder for the tokens. Received: records=None")
    quiet_tensorflow()
    from recipes.translation.corpora import load_corpora
    from recipes.translation.prepare import prepare
    from recipes.translation.text import check_text

    check_text(config)
    load_corpora(config)  # what training will need besides is asked for now, rather than hours later
    prepare(config, repair=True)


def _train(options):
    config = chosen_settings(options, TranslateConfig, DATA, EMBEDDED, QUICK, QUICK_TEXT)
    if config.xla_cache:
        from keras_headattn.training import cache_compilations

        cache_compilations(config.xla_cache)
    quiet_tensorflow()
    from recipes.translation.training import train

    train(config, afresh=starts_afresh(options))


def _evaluate(options):
    run, config, translator = _finished(options)
    from recipes.translation.corpora import check_sizes, load_tests, read_tests, test_names
    from recipes.translation.evaluation import evaluate

    own = run.config()
    if hasattr(options, "test_splits") and own.data not in ("iwslt", "tfds"):
        raise ValueError(
            f"--test-splits is for runs on --iwslt or --tfds; give --test. Received: {options.test_splits}"
        )
    if hasattr(options, "test"):
        tests = read_tests(options.test)
        if taken := set(tests) & set(test_names(own)):
            raise ValueError(
                f"The run has a test set of that name already; rename the file. Received: {', '.join(taken)}"
            )
    else:
        tests = load_tests(config)
    check_sizes(tests.values())
    if not tests:
        raise ValueError(f"The run in {run.folder} has no test set. Give --test.")
    # Translations made with other settings are kept apart from the run's own.
    other = [f",{name}={getattr(config, name)}" for name in DECODING if getattr(config, name) != getattr(own, name)]
    evaluate(translator, {name + "".join(other): corpus for name, corpus in tests.items()}, config, run.results)


def _export(options):
    run, config, translator = _finished(options)
    if not config.export:
        raise ValueError(f"The run in {run.folder} has no folder for SavedModels. Give --export. Received: export=None")
    from keras_headattn._files import read_lines
    from recipes.translation.exporting import export

    sentences = [line for path in sorted(run.results.glob("*/sources.txt")) for line in read_lines(path) if line]
    export(config, translator.searcher.model, translator.text, sentences)


def _translate(options):
    if options.file != "-" and not os.path.isfile(options.file):
        raise FileNotFoundError(f"There is no file {options.file}")
    _, _, translator = _finished(options)
    from keras_headattn._files import decode_lines, read_lines

    typed = options.file == "-" and sys.stdin.isatty()
    lines = decode_lines(sys.stdin.buffer, "standard input") if options.file == "-" else read_lines(options.file)
    # Few at a time, so that a long file or a pipe shows its first translations soon.
    while sentences := list(itertools.islice(lines, 1 if typed else 256)):
        for translation in translator(sentences):
            score = f"{translation.score:.4f}\t" if options.scores else ""
            print(score + translation.text, flush=True)


def _finished(options):
    """Run, settings and translator of a finished run."""
    quiet_tensorflow()
    from recipes.translation.run import Run
    from recipes.translation.text import make_text
    from recipes.translation.translator import Translator

    run = Run(options.folder)
    trained = run.config()
    config = override(trained, given_settings(options, set(OPTIONS[options.command]) - {"test"}))
    learned = trained.learned_positions or trained.attention == "synthesizer"
    if learned and config.max_length > trained.max_length:
        raise ValueError(
            f"The run has learned positions for {trained.max_length} tokens. Received: max_length={config.max_length}"
        )
    return run, config, Translator(run.load_model(), make_text(config, None, run.folder), config)


COMMANDS = {"train": _train, "prepare": _prepare, "evaluate": _evaluate, "export": _export, "translate": _translate}

if __name__ == "__main__":
    main()
