"""Classes of documents, with the words that a decision rests on: data sets of the ERASER benchmark.

    python -m recipes.rationales --quick          a minute, to see that everything works
    python -m recipes.rationales                  the synthetic task: reviews with known evidence
    python -m recipes.rationales --eraser movies --checkpoint MODEL --run runs/movies
    python -m recipes.rationales --eraser movies --checkpoint MODEL --run runs/evolving \\
        --attention evolving --attention-arguments alpha=0.1 beta=0.1 --seeds 1 2 3
    python -m recipes.rationales score runs/movies runs/evolving
    python -m recipes.rationales explain runs/movies review.txt
    python -m recipes.rationales convert esnli eSNLI folder

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

The encoder reads a document in windows that overlap by half, a learnt mix of its layers goes through a BiLSTM, and
additive attention over the words makes the vector that is classified. A frozen encoder reads each document once: its
states are kept in float16.

Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models"; Wang et al. 2021, "Evolving
attention with residual convolutions", tables 8 and 11, appendix C.
"""

from keras_headattn.interop._checkpoints import check_checkpoint
from recipes.engine.command import Command, fill_in_samples
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import Recipe, check_readable
from recipes.rationales.convert import convert
from recipes.rationales.explaining import explain
from recipes.rationales.scoring import score_runs
from recipes.rationales.settings import RationalesConfig
from recipes.rationales.train import evaluate, train

KINDS = ("attention", "gradient", "cls", "received", "lime", "random")


def _check_files(config):
    if config.checkpoint:
        check_checkpoint(config.checkpoint, "--checkpoint")
    if config.eraser:
        check_readable(*(f"{config.data_folder}/{name}.jsonl" for name in ("train", "val", "test")))


def _add_kinds(parser, default):
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(default), help="scores of words [all]")
    parser.add_argument("--samples", type=int, help="samples of LIME a document [100]")
    parser.add_argument("--seed", type=int, help="of LIME and of random scores [0]")


def _add_score(parser):
    parser.add_argument("folders", nargs="+", help="folders of finished runs, or of --seeds")
    _add_kinds(parser, KINDS)
    parser.add_argument(
        "--documents", type=int, help="annotations that words are removed from, and LIME explains [all]"
    )
    parser.add_argument("--output", help="file of the table, .md [none: it is printed]")


def _score(options):
    fill_in_samples(options, options.kinds)
    for name in ("samples", "documents"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ValueError(f"--{name} must be at least 1. Received: {getattr(options, name)}")
    quiet_tensorflow()
    score_runs(RECIPE, options)


def _add_explain(parser):
    RECIPE.add_run(parser)
    parser.add_argument(
        "file", nargs="?", default="-", help="a document a line, with a tab and its query after it; .gz too"
    )
    _add_kinds(parser, KINDS[:-1])
    parser.add_argument("--query", default="", help="of documents without one")


def _explain(options):
    check_readable(options.file)
    fill_in_samples(options, options.kinds)
    explain(*RECIPE.open(options.folder), options)


def _add_convert(parser):
    parser.add_argument("data", choices=("esnli", "cos_e"), help="e-SNLI's text files, or CoS-E with CommonsenseQA's")
    parser.add_argument("source", help="folder with them")
    parser.add_argument("folder", help="folder that gets train.jsonl, val.jsonl, test.jsonl and docs.jsonl")


def _convert(options):
    convert(options.data, options.source, options.folder)


RECIPE = Recipe(
    name="rationales",
    doc=__doc__,
    settings=RationalesConfig,
    train=train,
    evaluate=evaluate,
    built_in="reviews",
    quick=dict(
        epochs=8,
        size="bert_tiny",
        checkpoint=None,
        # With dropout the model stays at chance for many epochs.
        model_arguments=dict(lstm_dim=64, pooling_dim=64, hidden_dim=64, dropout=0.0),
        batch_size=8,
        learning_rate=2e-3,
    ),
    quick_data=dict(train_examples=100, test_examples=20, max_windows=1, window=128),
    files=("labels.txt", "tokenizer.json", "vocab.txt", "states", "explained"),
    check_files=_check_files,
    evaluated=("eraser", "test_examples"),
    commands={
        "score": Command(_score, "how well scores of words find evidence, and what the model needs", _add_score),
        "explain": Command(_explain, "scores of the words of documents, as JSON lines", _add_explain, filters=True),
        "convert": Command(_convert, "other data sets as ERASER has them", _add_convert),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
