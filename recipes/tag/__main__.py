"""Names in texts, or parts of speech: tags of words by pre-trained encoders with any attention, of CoNLL files.

    python -m recipes.tag --quick          a minute, to see that everything works
    python -m recipes.tag                  the synthetic task: names in sentences made by code
    python -m recipes.tag --train eng.train --validation eng.testa --test eng.testb --checkpoint bert-base-cased
    python -m recipes.tag --train train.conll --checkpoint MODEL --attention evolving \\
        --attention-arguments alpha=0.1 beta=0.1 --seeds 1 2 3
    python -m recipes.tag evaluate runs/tag --test other.conll
    python -m recipes.tag predict runs/tag < texts.txt
    python -m recipes.tag export runs/tag

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Devlin et al. 2019, "BERT", section 5.3; Tjong Kim Sang & De Meulder 2003, "Introduction to the CoNLL-2003
shared task".
"""

import dataclasses
import json

from keras_headattn.interop._checkpoints import check_checkpoint
from keras_headattn.serving import Tagger
from recipes.engine.command import Command, portions
from recipes.engine.recipe import Recipe, check_readable
from recipes.tag.settings import OF_FILES, TagConfig
from recipes.tag.train import evaluate, learned, train, write


def _check_files(config):
    if config.checkpoint:
        check_checkpoint(config.checkpoint, "--checkpoint")
    check_readable(*config.train, *config.validation_files, *config.test, encoding=config.encoding)


def _add_predict(parser):
    RECIPE.add_run(parser)
    parser.add_argument("file", nargs="?", default="-", help="a text a line; .gz too")


def _predict(options):
    """Prints a JSON object for each line of a file or standard input."""
    check_readable(options.file)
    run, config = RECIPE.open(options.folder)
    tagger = Tagger(run.load_model(), *learned(run), config.max_length)
    for texts in portions(options.file):
        for text, predicted in zip(texts, tagger(texts), strict=True):
            entities = [dataclasses.asdict(entity) | {"score": round(entity.score, 4)} for entity in predicted]
            print(json.dumps({"text": text, "entities": entities}, ensure_ascii=False), flush=True)


RECIPE = Recipe(
    name="tag",
    doc=__doc__,
    page=False,
    settings=TagConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="names",
    quick=dict(epochs=2, size="bert_tiny", checkpoint=None),
    quick_data=dict(max_examples=500, max_length=32),
    files=("labels.txt", "tokenizer.json", "vocab.txt"),
    check_files=_check_files,
    evaluated=("test", *OF_FILES),
    exported=("export", "export_arguments"),
    commands={
        "predict": Command(
            _predict, "the names in each line of a file or standard input, as JSON", _add_predict, filters=True
        ),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
