"""Translation with any attention of this library: train, evaluate, export, translate.

    python -m recipes.translate --quick          a minute, to see that everything works
    python -m recipes.translate                  the embedded task: English numbers and dates to German
    python -m recipes.translate --config multi30k --train train.en.gz train.de.gz ...
    python -m recipes.translate evaluate runs/translate
    python -m recipes.translate export runs/translate
    python -m recipes.translate translate runs/translate < sentences.txt

The same command continues a run that was interrupted, from the end of its last epoch.

Source of the default attention: Zhang et al. 2022, "Interacting-head attention". Settings of papers are in
recipes/configs/, with what they should score.
"""

import argparse
import dataclasses
import importlib
import itertools
import pathlib
import sys

from recipes.config import add_options, load_config, override
from recipes.quiet import quiet_tensorflow
from recipes.translation.settings import TranslateConfig

QUICK = dict(
    epochs=2,
    num_layers=1,
    hidden_dim=64,
    intermediate_dim=128,
    validation_sentences=0,
    images=False,
    beam_size=2,
    run="runs/quick",
    export="saved_models/quick",
)
DECODING = ("beam_size", "alpha", "max_length", "metrics", "embeddings", "export", "sample_sentences")
HELP = "Defaults are in brackets. Settings can also come from a file, see --config, and be overridden here."


def main(arguments=None):
    """Runs one sub-command; `train` where none is named."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] not in (*COMMANDS, "-h", "--help"):
        arguments.insert(0, "train")
    options = _parser().parse_args(arguments)
    try:
        COMMANDS[options.command](options)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The last checkpoint is kept: the same command continues from there.")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.translate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    train = commands.add_parser("train", help="train, evaluate and export (the default)", description=HELP)
    train.add_argument("--config", help="a name in recipes/configs, or the path of a saved config.json")
    train.add_argument("--quick", action="store_true", help="a tiny model for one epoch: a minute")
    add_options(train, TranslateConfig)
    evaluate = commands.add_parser("evaluate", help="score a finished run on its test sets")
    export = commands.add_parser("export", help="write the SavedModels of a finished run again")
    translate = commands.add_parser("translate", help="translate a file, or standard input")
    for command in (evaluate, export, translate):
        command.add_argument("run", help="folder of the run")
        add_options(command, TranslateConfig, DECODING)
    translate.add_argument("file", nargs="?", default="-", help="one sentence a line; none: standard input")
    translate.add_argument("--scores", action="store_true", help="a score and a tab before each translation")
    return parser


def _config(options, config):
    """`config` with what the command line overrides."""
    names = {field.name for field in dataclasses.fields(TranslateConfig)}
    return override(config, {name: value for name, value in vars(options).items() if name in names and name != "run"})


def _train(options):
    config = named_config(options.config)
    if options.quick:
        config = override(config, QUICK)
    config = _config(options, config)
    if hasattr(options, "run"):
        config = override(config, {"run": options.run})
    quiet_tensorflow()
    from recipes.translation.training import train

    train(config)


def _evaluate(options):
    run, config, translator = _finished(options)
    from recipes.translation.corpora import load_tests
    from recipes.translation.evaluation import evaluate

    evaluate(translator, load_tests(config), config, run.results)


def _export(options):
    _, config, translator = _finished(options)
    from recipes.translation.corpora import load_tests
    from recipes.translation.exporting import export

    sentences = [sentence for corpus in load_tests(config).values() for sentence in corpus.source]
    export(config, translator.searcher.model, translator.text, sentences)


def _translate(options):
    if options.file != "-" and not pathlib.Path(options.file).is_file():
        raise FileNotFoundError(f"There is no file {options.file}")
    _, _, translator = _finished(options)
    with sys.stdin if options.file == "-" else open(options.file, encoding="utf-8") as lines:
        # Few at a time, so that a long file or a pipe shows its first translations soon.
        while sentences := [line.strip() for line in itertools.islice(lines, 256)]:
            for translation in translator(sentences):
                score = f"{translation.score:.4f}\t" if options.scores else ""
                print(score + translation.text, flush=True)


def _finished(options):
    """Run, settings and translator of a finished run."""
    quiet_tensorflow()
    from recipes.translation.run import Run
    from recipes.translation.text import make_text
    from recipes.translation.translator import Translator

    run = Run(options.run)
    config = _config(options, run.config())
    return run, config, Translator(run.load_model(), make_text(config, None, run.folder), config)


def named_config(name):
    """The settings of `recipes/configs/<name>.py`, of a JSON file, or the defaults."""
    if name is None:
        return TranslateConfig()
    if name.endswith(".json"):
        return load_config(TranslateConfig, name)
    try:
        return importlib.import_module(f"recipes.configs.{name}").CONFIG
    except ModuleNotFoundError:
        raise ValueError(f"--config is a name in recipes/configs or a .json file. Received: {name}") from None


COMMANDS = {"train": _train, "evaluate": _evaluate, "export": _export, "translate": _translate}

if __name__ == "__main__":
    main()
