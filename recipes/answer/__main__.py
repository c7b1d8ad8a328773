"""Answers to questions about texts, by pre-trained encoders with any attention: SQuAD 1.1 and 2.0, and your own.

    python -m recipes.answer --quick          a minute, to see that everything works
    python -m recipes.answer                  the synthetic task: who has how many of what
    python -m recipes.answer --train train-v2.0.json --validation dev-v2.0.json --checkpoint bert-base-uncased
    python -m recipes.answer --config bert_base_squad2 --train train-v2.0.json --validation dev-v2.0.json \\
        --checkpoint bert-base-uncased --attention evolving --attention-arguments alpha=0.1 beta=0.1
    python -m recipes.answer evaluate runs/answer --test others.json
    python -m recipes.answer predict runs/answer questions.json --output answers
    python -m recipes.answer predict runs/answer < questions.tsv
    python -m recipes.answer export runs/answer

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

A context that is too long for the encoder is read in windows that overlap. Where questions may have no answer, the
score above which there is none is fitted on the validation set.

Source: Devlin et al. 2019, "BERT", sections 4.2 and 4.3; Rajpurkar et al. 2016 and 2018, SQuAD. The settings of papers
are in recipes/answer/configs/squad.py.
"""

import pathlib

from keras_headattn.interop._checkpoints import check_checkpoint
from recipes.answer.predicting import answers_to, write_answers
from recipes.answer.settings import AnswerConfig
from recipes.answer.squad import read_squad
from recipes.answer.train import evaluate, load_answerer, train, write
from recipes.engine.command import Command, portions
from recipes.engine.recipe import Recipe, check_readable
from recipes.engine.texts.predicting import sides_of


def _check_files(config):
    if config.checkpoint:
        check_checkpoint(config.checkpoint, "--checkpoint")
    check_readable(*config.train, *config.validation_files, *config.test)


def _add_predict(parser):
    RECIPE.add_run(parser)
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        help="a question, a tab and its text a line, .gz too, or standard input; or a .json of SQuAD",
    )
    parser.add_argument("--top", type=int, default=1, help="how many answers of each [1]")
    parser.add_argument("--output", help="folder for the answers to a .json, in the files of SQuAD's evaluation")


def _predict(options):
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    is_squad = options.file.endswith(".json")
    if is_squad != bool(options.output):
        raise ValueError(f"--output is for questions of a .json. Received: {options.file}, output={options.output}")
    check_readable(options.file)
    questions = read_squad(options.file) if is_squad else None
    run, config = RECIPE.open(options.folder)
    answerer = load_answerer(run, config, run.load_model(), options.top)
    if is_squad:
        write_answers(pathlib.Path(options.output), answers_to(answerer, questions, config.quiet))
        print(options.output)
        return
    done = 0
    for lines in portions(options.file):
        numbers, sides = sides_of(lines, True, options.file, done)
        answers = dict(zip(numbers, answerer(*sides), strict=True))
        for line in range(done + 1, done + len(lines) + 1):
            print(_row(answers[line]) if line in answers else "", flush=True)
        done += len(lines)


def _row(answer):
    """Returns the answers, each with the places of its first character and of that after its last, and probability."""
    rows = zip(answer.texts, answer.starts, answer.ends, answer.scores, strict=True)
    cells = [f"{' '.join(text.split())}\t{start}\t{end}\t{score:.3f}" for text, start, end, score in rows if text]
    return "\t".join(cells) if answer.has_answer else "no answer"


RECIPE = Recipe(
    name="answer",
    doc=__doc__,
    page=False,
    settings=AnswerConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="number_questions",
    quick=dict(epochs=4, learning_rate=2e-3, size="bert_tiny", checkpoint=None, max_length=64, max_examples=2_000),
    quick_data=dict(max_examples=200, max_length=64, max_question_length=16, stride=32),
    files=("tokenizer.json", "vocab.txt", "threshold.json"),
    check_files=_check_files,
    evaluated=("test", "max_answer_length"),
    exported=("export", "export_arguments", "max_answer_length"),
    commands={
        "predict": Command(_predict, "answers to the questions of a file or standard input", _add_predict, filters=True)
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
