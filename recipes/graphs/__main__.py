"""Texts of graphs of entities and relations, by GraphWriter with any attention: train, evaluate, export, write.

    python -m recipes.graphs --quick          a minute, to see that everything works
    python -m recipes.graphs                  the synthetic task: facts on invented people
    python -m recipes.graphs --train train.jsonl --validation val.jsonl --test test.jsonl
    python -m recipes.graphs --config webnlg --train v1.6/en/train --validation v1.6/en/dev --test v1.6/en/test
    python -m recipes.graphs --config repulsive_agenda --train train.tsv --validation val.tsv --test test.tsv
    python -m recipes.graphs evaluate runs/graphs
    python -m recipes.graphs export runs/graphs
    python -m recipes.graphs write runs/graphs < graphs.jsonl
    python -m recipes.graphs write saved_models/graphs graphs.jsonl
    python -m recipes.graphs explain runs/graphs graphs.jsonl

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers"; An et al. 2020,
"Repulsive attention", table 4. Settings of papers are in configs/.
"""

import functools
import os
import sys

from recipes.engine.command import Command, portions
from recipes.engine.config import flag
from recipes.engine.generation import DECODING
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.graphs.explaining import explain
from recipes.graphs.exported import SavedGraphToText, saved_model_in
from recipes.graphs.files import graph_of_line
from recipes.graphs.settings import GraphsConfig
from recipes.graphs.train import evaluate, load_graph_to_text, train, write


def _check_files(config):
    for path in (*config.train, *(() if config.validation_share else config.validation), *config.test):
        if not os.path.exists(path):
            raise FileNotFoundError(f"No such file or folder. Received: {path}")


def _add_write(parser):
    RECIPE.add_run(parser, WRITING)
    parser.add_argument("file", nargs="?", default="-", help="a graph a line as JSON, .gz too; none: standard input")
    parser.add_argument("--scores", action="store_true", help="a score and a tab before each text")


def _writer_of(folder, settings):
    """Returns functions that read a line and write the texts of graphs, by a run or a SavedModel."""
    if path := saved_model_in(folder):
        if settings:
            name, value = next(iter(settings.items()))
            raise ValueError(f"{flag(name)} is only for runs: a SavedModel has its own. Received: {name}={value!r}")
        return graph_of_line, SavedGraphToText(path)
    run, config = RECIPE.open(folder, settings)
    read = functools.partial(graph_of_line, max_entities=config.max_entities)
    return read, load_graph_to_text(run, config, run.load_model())


def _write(options):
    check_readable(options.file)
    read, graph_to_text = _writer_of(options.folder, given_settings(options, WRITING))
    if options.file == "-" and sys.stdin.isatty():
        print("Type a graph as JSON and Enter; Ctrl-D ends.", file=sys.stderr)
    done = 0
    for lines in portions(options.file):
        graphs = [read(line, line_number) for line_number, line in enumerate(lines, done + 1) if line]
        done += len(lines)
        descriptions = iter(graph_to_text(graphs) if graphs else [])
        for line in lines:
            if not line:
                print(flush=True)  # an empty line for an empty one
                continue
            description = next(descriptions)
            score = f"{description.score:.4f}\t" if options.scores else ""
            print(score + description.text, flush=True)


def _add_explain(parser):
    RECIPE.add_run(parser, WRITING)
    parser.add_argument("file", nargs="?", default="-", help="a graph a line as JSON, .gz too; none: standard input")
    parser.add_argument("--examples", type=int, default=5, help="the first lines of the file, so many [5]")
    parser.add_argument("--block", type=int, help="whose attention is drawn, from 1 [the last]")
    parser.add_argument("--heads", nargs="+", type=int, help="which are drawn, from 1 [all]")


def _explain(options):
    check_readable(options.file)
    if options.examples < 1:
        raise ValueError(f"--examples must be at least 1. Received: examples={options.examples}")
    explain(*RECIPE.open(options.folder, given_settings(options, WRITING)), options)


WRITING = (*DECODING, "max_entities")
RECIPE = Recipe(
    name="graphs",
    doc=__doc__,
    settings=GraphsConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="people",
    quick=dict(
        model_arguments=dict(num_layers=1, hidden_dim=32, num_encoder_layers=1),
        max_graphs=400,
        validation_graphs=0,
        beam_size=2,
        average=1,
    ),
    quick_data=dict(tokens_per_batch=1_000, vocabulary_arguments=dict(min_count=1), max_length=100),
    files=("vocabulary.json", "categories.json", "explained"),
    check_files=_check_files,
    evaluated=(*DECODING, "metrics", "test", "format", "encoding", "max_graphs"),
    exported=(*WRITING, "export", "samples"),
    commands={
        "write": Command(
            _write, "the texts of graphs, JSON a line, of a file or standard input", _add_write, filters=True
        ),
        "explain": Command(_explain, "what heads attend to and which words are copies: pictures, a page", _add_explain),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
