"""Decoder-only language models with any heads: train, score, write, serve.

    python -m recipes.lm --quick            a minute, to see that everything works
    python -m recipes.lm                    the synthetic task: counting in number words
    python -m recipes.lm --config nano_cpu --train shakespeare.txt --attention talking_heads
    python -m recipes.lm --checkpoint gpt2 --train mine.txt --attention knocking_heads --learning-rate 1e-4
    python -m recipes.lm generate runs/lm --prompt "ROMEO:" --temperature 0.8 --top-k 20
    python -m recipes.lm export runs/lm
    python -m recipes.lm evaluate runs/lm --test other.txt --tasks blimp/
    python -m recipes.lm --synthetic recall --attention differential
    python -m recipes.lm prepare texts.jsonl corpus.bin --tokenizer byte_pairs
    python -m recipes.lm --train corpus.bin --tokenizer corpus.tokenizer.json --rows documents

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Settings are in configs/: number_words, and nanoGPT's nano_cpu and nano.
"""

from recipes.engine.command import Command
from recipes.engine.recipe import Recipe
from recipes.lm.data import check_files
from recipes.lm.generation import add_generate, generate
from recipes.lm.prepare import add_prepare, prepare
from recipes.lm.settings import LmConfig
from recipes.lm.train import evaluate, train, write


def _generate(options):
    run, _ = RECIPE.open(options.folder)
    generate(run, options)


RECIPE = Recipe(
    name="lm",
    doc=__doc__,
    settings=LmConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    page=True,
    built_in="number_words",
    quick=dict(
        epochs=2,
        epoch_steps=150,
        length=64,
        batch_size=8,
        learning_rate=3e-3,
        model_arguments=dict(num_layers=2, hidden_dim=64, intermediate_dim=128),
    ),
    unit="characters",
    files=("tokenizer.json", "train.bin", "train.json", "validation.bin", "validation.json"),
    check_files=check_files,
    evaluated=("test", "stride", "tasks", "shots"),
    exported=("export",),
    commands={
        "generate": Command(_generate, "write texts that go on after a prompt", add_generate, filters=True),
        "prepare": Command(prepare, "write texts as a token file, for runs that share it", add_prepare),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
