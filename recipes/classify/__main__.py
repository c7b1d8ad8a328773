"""Classes, labels or numbers of texts, by a BiLSTM or a Transformer under additive multi-head attention.

    python -m recipes.classify --quick          a minute, to see that everything works
    python -m recipes.classify                  the synthetic task: which language a number is written in
    python -m recipes.classify --train train.csv --text-column review --label-column stars
    python -m recipes.classify --train train.csv --repulsive svgd --seeds 1 2 3 4 5
    python -m recipes.classify --train pairs.csv --second-column other --label-column similarity --predict number
    python -m recipes.classify evaluate runs/classify
    python -m recipes.classify export runs/classify
    python -m recipes.classify classify runs/classify < sentences.txt
    python -m recipes.classify explain runs/classify --file sentences.txt

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Lin et al. 2017, "A structured self-attentive sentence embedding"; An et al. 2020, "Repulsive attention",
sections B.2.1 and B.2.2. Settings of papers are in configs/: yelp, age, snli, twitter, wikipedia; also sst2,
sst5.
"""

from recipes.classify.settings import ClassifyConfig
from recipes.classify.train import evaluate, load_predictor, train, write
from recipes.engine.recipe import Recipe, check_readable
from recipes.engine.texts.explaining import explain_command
from recipes.engine.texts.predicting import classify_command
from recipes.engine.texts.settings import COLUMNS, OF_FILES


def _check_files(config):
    check_readable(*config.train, *config.validation_files, *config.test, encoding=config.encoding)
    check_readable(config.embeddings)


FILES = (*OF_FILES, *COLUMNS, "drop_labels", "max_examples")
RECIPE = Recipe(
    name="classify",
    doc=__doc__,
    page=True,
    settings=ClassifyConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    predictor=load_predictor,
    built_in="number_words",
    quick=dict(
        model_arguments=dict(num_layers=1, embedding_dim=32, hidden_dim=32, mlp_dim=64, factor_dim=32, dropout=0.1),
        embeddings=None,
        pooling_dim=32,
        pooling_heads=4,
        optimizer="adam",
        learning_rate=5e-3,
        num_buckets=3,
    ),
    quick_data=dict(max_examples=2_000, max_length=50, batch_size=32),
    files=("labels.txt", "vocabulary.txt", "vocabulary.model", "explained"),
    check_files=_check_files,
    evaluated=("test", "tfds", "splits", *FILES),
    exported=("export", "export_arguments"),
    commands={"classify": classify_command(lambda: RECIPE), "explain": explain_command()},
)
main = RECIPE.main

if __name__ == "__main__":
    main()
