"""Tasks in files of JSON lines: pairs of sentences, choices of an answer, ends of texts."""

import dataclasses
import json
import pathlib

import numpy as np

from keras_headattn._files import read_lines
from recipes.engine.data import named_sets

SENTENCES = "blimp"  # name of the test set of all files with pairs of sentences


@dataclasses.dataclass(frozen=True)
class Item:
    """A question.

    Args:
        options: texts to tell apart, each a pair of a context and what follows it, which is scored.
        gold: index of the right one.
        field: name of what is asked, or "".
    """

    options: tuple
    gold: int = 0
    field: str = ""


def read_tasks(paths, shots=0, seed=0):
    """Reads files and folders of JSON lines: dictionary of name to a list of `Item`.

    The lines are those of BLiMP (Warstadt et al. 2020), of which all files are one task, or of llm-foundry's three
    kinds of tasks. `shots` other items with their answers, drawn by seed, stand before each of the latter.
    """
    files = []
    for path in map(pathlib.Path, paths):
        matches = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        files += matches
        if not matches:
            raise ValueError(f"--tasks must be files, or folders with .jsonl files. Received: {path}, without one")
    tasks = {}
    for name, (file,) in named_sets([[file] for file in files], "[.]jsonl").items():
        items = read_task(file)
        if items[0].options[0][0]:
            tasks[name] = with_shots(items, shots, seed)
        else:
            tasks.setdefault(SENTENCES, []).extend(items)
    return tasks


def read_task(path):
    """Reads the items of a file."""
    items = []
    for line_number, line in enumerate(read_lines(path), 1):
        try:
            items.append(read_item(json.loads(line)))
        except ValueError:
            raise ValueError(
                "A task must have an object a line of sentence_good and sentence_bad; query, choices and gold; "
                "context_options, continuation and gold; or context and continuation. "
                f"Received: {line:.80} in line {line_number} of {path}"
            ) from None
    if not items:
        raise ValueError(f"A task must have a line. Received: {path}, which is empty")
    return items


def read_item(values):
    """Returns the `Item` of an object; others are a `ValueError`."""
    match values:
        case {"sentence_good": str(good), "sentence_bad": str(bad)}:
            return Item((("", good), ("", bad)), field=str(values.get("field", "")).replace("/", "_"))
        case {"query": str(query), "choices": [str(), str(), *_] as choices, "gold": int(gold)}:
            options = [(query, choice) for choice in choices]
        case {"context_options": [str(), str(), *_] as contexts, "continuation": str(end), "gold": int(gold)}:
            options = [(context, end) for context in contexts]
        case {"context": str(context), "continuation": str(end)}:
            options, gold = [(context, end)], 0
        case _:
            raise ValueError
    if not 0 <= gold < len(options) or not all(context.strip() and end.strip() for context, end in options):
        raise ValueError
    return Item(tuple(_joined(*option) for option in options), gold)


def _joined(context, end):
    """Moves the blanks between a context and what follows to the latter: one at least."""
    kept = context.rstrip()
    return kept, (context[len(kept) :] or " ") + end.strip()


def with_shots(items, shots, seed):
    """Puts other items with their answers before each."""
    if shots >= len(items):
        raise ValueError(f"--shots must be below the number of items of a task. Received: {shots} of {len(items)}")
    prompted, rng = [], np.random.default_rng(seed)
    for index, item in enumerate(items):
        drawn = rng.choice(len(items) - 1, shots, replace=False)
        shown = [items[i + (i >= index)] for i in drawn]
        before = "".join("".join(example.options[example.gold]) + "\n" for example in shown)
        options = tuple((before + context, end) for context, end in item.options)
        prompted.append(dataclasses.replace(item, options=options))
    return prompted


def score_items(items, losses, hits):
    """Returns the scores of a task: dictionary of name to the values of its items, whose mean is the score.

    Args:
        items: list of `Item`.
        losses: -log p of what follows, of each option of each item in turn.
        hits: whether each token of it was the likeliest, in the same order.
    """
    bounds = np.cumsum([0, *(len(item.options) for item in items)])
    losses = [np.array(losses[begin:end]) for begin, end in zip(bounds, bounds[1:], strict=False)]
    if len(items[0].options) == 1:
        return {"accuracy": np.array(hits, float), "loss": np.concatenate(losses)}
    scores = {"accuracy": accuracies(items, losses, lambda text: 1)}
    has_context, has_choices = items[0].options[0][0] != "", len({end for _, end in items[0].options}) > 1
    if has_context and has_choices:
        scores["accuracy_by_characters"] = accuracies(items, losses, lambda text: len(text.strip()))
        scores["accuracy_by_bytes"] = accuracies(items, losses, lambda text: len(text.strip().encode()))
    if has_context:
        chance = np.mean([1 / len(item.options) for item in items])
        scores["centred_accuracy"] = (scores["accuracy"] - chance) / (1 - chance)
    for field in sorted({item.field for item in items} - {""}):
        scores[f"accuracy {field}"] = scores["accuracy"][[item.field == field for item in items]]
    return scores


def accuracies(items, losses, size):
    """Returns 1 for each item whose right option has the least loss over the size of its text, else 0."""
    hits = []
    for item, option_losses in zip(items, losses, strict=True):
        hits.append(np.argmin(option_losses / [size(end) for _, end in item.options]) == item.gold)
    return np.array(hits, float)
