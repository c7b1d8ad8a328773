"""Pre-training of encoders with any attention: ELECTRA, or masked tokens, on text of your own.

    python -m recipes.pretrain --quick          a minute, to see that everything works
    python -m recipes.pretrain                  synthetic text: number words in twelve languages
    python -m recipes.pretrain prepare --records records/books --train books/ --vocabulary vocab.txt
    python -m recipes.pretrain --config electra_small --records records/books
    python -m recipes.pretrain --config repulsive_electra_small --records records/books
    python -m recipes.pretrain --objective masked_lm --attention evolving --records records/books
    python -m recipes.pretrain evaluate runs/pretrain --test others.txt
    python -m recipes.pretrain import electra_small/ --run runs/electra
    python -m recipes.pretrain export runs/pretrain --export checkpoints/mine
    python -m recipes.glue --checkpoint runs/pretrain --task cola --glue GLUE

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Clark et al. 2020, "ELECTRA: Pre-training text encoders as discriminators rather than generators"; Devlin et al.
2019, "BERT"; for repulsive attention An et al. 2020, "Repulsive attention", appendix B.2.4.
"""

from recipes.engine.command import Command
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.engine.run import Run
from recipes.pretrain.export import import_pretrained, write
from recipes.pretrain.prepare import prepare
from recipes.pretrain.settings import PretrainConfig
from recipes.pretrain.train import evaluate, train


def _check_files(config):
    check_readable(config.vocabulary, *config.test)


def _prepare(options):
    config = RECIPE.chosen_settings(options)
    if not config.records:
        raise ValueError("Give --records, the folder for the sequences. Received: records=None")
    _check_files(config)
    quiet_tensorflow()
    manifest = prepare(config, repair=True).manifest
    print(f"{manifest['examples']:,} sequences of {manifest['tokens']['input_ids']:,} tokens in {config.records}")


def _add_import(parser):
    parser.add_argument("checkpoint", help="folder of ELECTRA or BERT as Hugging Face has it, or of Google's program")
    parser.add_argument("--generator", help="folder of ELECTRA's generator as Hugging Face has it")
    RECIPE.add_settings(parser, without=RECIPE.settings.SOURCES)


def _import(options):
    config = PretrainConfig().changed(given_settings(options, RECIPE.names()))
    quiet_tensorflow()
    import_pretrained(Run(config.run, RECIPE), config, options.checkpoint, options.generator)
    print(f"python -m recipes.glue --checkpoint {config.run}")


RECIPE = Recipe(
    name="pretrain",
    doc=__doc__,
    settings=PretrainConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="number_documents",
    quick=dict(epoch_steps=10, batch_size=16, warmup_steps=2, validation_sequences=64, size="tiny"),
    quick_data=dict(vocabulary_size=1_000, vocabulary_lines=2_000),
    files=("tokenizer.json", "records"),
    check_files=_check_files,
    evaluated=("test",),
    exported=("export",),
    commands={
        "prepare": Command(
            _prepare,
            "write the text as sequences of tokens to the folder --records; takes the options of train",
            lambda parser: RECIPE.add_settings(parser),
            continues=True,
        ),
        "import": Command(_import, "make a run of a checkpoint of both networks, without training", _add_import),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
