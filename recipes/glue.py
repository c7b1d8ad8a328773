"""Fine-tuning of pre-trained encoders with any attention: the tasks of GLUE, and texts or pairs of your own.

    python -m recipes.glue --quick          a minute, to see that everything works
    python -m recipes.glue                  the embedded task: whether a sentence has two words swapped
    python -m recipes.glue --config bert_base_cola --glue GLUE --checkpoint bert-base-uncased
    python -m recipes.glue --task cola --glue GLUE --checkpoint MODEL --attention evolving \\
        --attention-arguments alpha=0.1 beta=0.1 --seeds 1 2 3 4 5
    python -m recipes.glue --train train.csv --text-column review --label-column stars --checkpoint MODEL
    python -m recipes.glue evaluate runs/glue
    python -m recipes.glue export runs/glue
    python -m recipes.glue classify runs/glue < sentences.txt
    python -m recipes.glue submit runs/cola runs/sst2 runs/mnli ... --output submission.zip

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.2, tables 3, 4 and 9; Devlin et al.
2019, "BERT". The settings of table 9 are in recipes/configs/glue.py.
"""

import os

from recipes.engine.recipe import Recipe, check_readable
from recipes.finetuning.settings import GlueConfig
from recipes.sentences.lines import classify_command

# oneDNN calls it an error where it leaves integers to TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _check_files(config):
    check_readable(*config.train, *config.validation, *config.test, encoding=config.encoding)


RECIPE = Recipe(
    name="glue",
    doc=__doc__,
    settings=GlueConfig,
    task="recipes.finetuning.task:Glue",
    embedded="number_tasks",
    quick=dict(epochs=2, size="bert_tiny", checkpoint=None, pretraining_epochs=1),
    quick_data=dict(max_examples=500, max_length=32, pretraining_epochs=0),
    files=("labels.txt", "tokenizer.json", "vocab.txt", "pretrained.weights.h5", "submission"),
    check_files=_check_files,
    evaluated=("test",),
    exported=("export", "export_maps"),
    commands={"classify": classify_command(lambda: RECIPE)},
)
main = RECIPE.main

if __name__ == "__main__":
    main()
