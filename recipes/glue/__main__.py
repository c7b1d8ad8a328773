"""Fine-tuning of pre-trained encoders with any attention: the tasks of GLUE, and texts or pairs of your own.

    python -m recipes.glue --quick          a minute, to see that everything works
    python -m recipes.glue                  the synthetic task: whether a sentence has two words swapped
    python -m recipes.glue --config bert_base_cola --glue GLUE --checkpoint bert-base-uncased
    python -m recipes.glue --task cola --glue GLUE --checkpoint MODEL --attention evolving \\
        --attention-arguments alpha=0.1 beta=0.1 --seeds 1 2 3 4 5
    python -m recipes.glue --train train.csv --text-column review --label-column stars --checkpoint MODEL
    python -m recipes.glue evaluate runs/glue
    python -m recipes.glue export runs/glue
    python -m recipes.glue classify runs/glue < sentences.txt
    python -m recipes.glue explain runs/glue --file sentences.txt
    python -m recipes.glue submit runs/cola runs/sst2 runs/mnli ... --output submission.zip

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.2, tables 3, 4 and 9; Devlin et al.
2019, "BERT". The settings of table 9 are in recipes/glue/configs/glue.py.
"""

from keras_headattn.interop._checkpoints import check_checkpoint
from recipes.engine.command import Command
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import Recipe, check_readable
from recipes.engine.texts.explaining import explain_command
from recipes.engine.texts.predicting import classify_command
from recipes.engine.texts.settings import COLUMNS, OF_FILES
from recipes.glue.data import read_unlabelled
from recipes.glue.glue_tasks import SUBMISSION
from recipes.glue.settings import GlueConfig
from recipes.glue.submission import collect, predict_tests, write_zip
from recipes.glue.train import evaluate, load_predictor, train, write

FILES = (*OF_FILES, *COLUMNS, "drop_labels")


def _check_files(config):
    if config.checkpoint:
        check_checkpoint(config.checkpoint, "--checkpoint")
    check_readable(*config.train, *config.validation_files, *config.test, encoding=config.encoding)


def _add_submit(parser):
    parser.add_argument("folders", nargs="+", help="folders of finished runs")
    parser.add_argument("--output", default="submission.zip", help="the zip, or none for the files alone")
    parser.add_argument(
        "--fill",
        nargs="*",
        default=[],
        choices=SUBMISSION,
        metavar="NAME",
        help="files of no run: the majority's label",
    )
    parser.add_argument("--glue", help="folder of GLUE, whose test sets are read anew [that of the run]")


def _submit(options):
    for folder in options.folders:
        RECIPE.run_of(folder)
    quiet_tensorflow()

    runs = [_predicted(folder, options) for folder in options.folders]
    if options.output != "none":
        write_zip(options.output, collect(runs, options.fill))
        print(options.output)


def _predicted(folder, options):
    """Returns the run in a folder, whose predictions of the test sets are written, if they are not."""
    run = RECIPE.run_of(folder)
    config = run.read_config() if options.glue is None else run.read_config().changed({"glue": options.glue})
    if config.glue_task is None:
        raise ValueError(f"The run in {folder} is not one of a GLUE task. Received: task={config.task}")
    known = set() if options.glue else {path.stem for path in (run.folder / "submission").glob("*.tsv")}
    missing = read_unlabelled(config.glue_task, config.glue, tfds=config.data == "tfds", without=known)
    if not missing and not known:
        raise ValueError(f"There are no test files of {config.task}. Give --glue. Received: glue={config.glue!r}")
    if missing:
        predict_tests(run, config, load_predictor(run, config, run.load_model()), missing)
    return run


RECIPE = Recipe(
    name="glue",
    doc=__doc__,
    page=True,
    settings=GlueConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    predictor=load_predictor,
    built_in="number_tasks",
    quick=dict(epochs=2, size="bert_tiny", checkpoint=None, pretraining_epochs=1),
    quick_data=dict(max_examples=500, max_length=32, pretraining_epochs=0),
    files=("labels.txt", "tokenizer.json", "vocab.txt", "pretrained.weights.h5", "submission", "explained"),
    check_files=_check_files,
    evaluated=("test", *FILES),
    exported=("export", "export_arguments"),
    commands={
        "classify": classify_command(lambda: RECIPE),
        "explain": explain_command(),
        "submit": Command(_submit, "predictions of GLUE's test sets, and the zip for its server", _add_submit),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
