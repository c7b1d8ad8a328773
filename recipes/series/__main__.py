"""Classes or numbers of time series, by dilated convolutions with attention beside them.

    python -m recipes.series --quick            a minute, to see that everything works
    python -m recipes.series                    the synthetic task: the product of two marked values
    python -m recipes.series --train train.ts --test test.ts --task classification
    python -m recipes.series --train train.csv --id-column patient --target-column dose
    python -m recipes.series evaluate runs/series --test other.ts
    python -m recipes.series export runs/series
    python -m recipes.series predict runs/series new.ts

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Wang et al. 2022, "Convolution-enhanced evolving attention networks". Settings are in configs/: marked_values,
evolving_dc.
"""

from recipes.engine.command import Command
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.series.settings import SeriesConfig
from recipes.series.train import check, evaluate, learned, predict, read, report_cut, train, write

OF_FILES = ("id_column", "encoding")  # may differ from the training set's


def _check_files(config):
    validation = config.validation if config.train and config.validation_share is None else None
    check_readable(config.train, validation, *config.test, encoding=config.encoding)


def _add_predict(parser):
    RECIPE.add_run(parser, OF_FILES)
    parser.add_argument("file", help=".ts or CSV, with targets or without")


def _predict(options):
    run, config = RECIPE.open(options.folder, given_settings(options, OF_FILES))
    part, notes = read(config, options.file, labelled=False), learned(run)
    check(part, len(notes["mean"]), names=notes.get("channels"))
    classes = notes.get("classes")
    report_cut(options.file, part.series, notes)
    for row in predict(config, notes, run.load_model(), part.series):
        print(classes[row.argmax()] if classes else f"{row[0]:.6g}", flush=True)


RECIPE = Recipe(
    name="series",
    doc=__doc__,
    settings=SeriesConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="marked_values",
    quick=dict(
        epochs=4,
        learning_rate=3e-3,
        num_heads=2,
        model_arguments=dict(hidden_dim=16, intermediate_dim=16, num_layers=2),
    ),
    files=("series.json",),
    check_files=_check_files,
    evaluated=("test", *OF_FILES),
    exported=("export",),
    commands={"predict": Command(_predict, "the class or number of each series of a file", _add_predict, filters=True)},
)
main = RECIPE.main

if __name__ == "__main__":
    main()
