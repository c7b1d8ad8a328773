"""Scores of language models: of texts, and of tasks."""

import functools
import json
import math

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import write_atomically
from recipes.lm.data import encode, ids_of
from recipes.lm.synthetic import TASKS
from recipes.lm.tasks import score_items

DRAWS = 1_000  # of the bootstrap
SHORTEST = 16  # tokens of a row
FEWEST = 20  # values with an interval: of fewer the bootstrap's is too narrow


def write_scores(run, name, scores):
    """Prints scores and writes them; `scores` is a dictionary of name to value and 95 % interval, or `None`."""
    record = {key: {"value": value, "signature": "", "interval": interval} for key, (value, interval) in scores.items()}
    write_atomically(run.results / name / "scores.json", (json.dumps(record, indent=1) + "\n").encode())
    shown = (
        f"{key} {value:.4f}" + (f" ({interval[0]:.4f} to {interval[1]:.4f})" if interval else "")
        for key, (value, interval) in scores.items()
    )
    print(f"{name}: " + ", ".join(shown))


def score_text(model, tokenizer, config, name, corpus):
    """Returns loss, perplexity and bits a byte of a corpus, marks of documents left out; the intervals are by windows.

    The model sees documents apart if it was trained so.
    """
    ids, length = ids_of(corpus, tokenizer, name), config.row_length
    split = functools.partial(documents_of, tokenizer) if config.separate_documents else None
    losses = token_losses(model, ids, length, config.stride or max(1, length // 2), config.batch_size, split)
    sizes = tokenizer.token_bytes[ids[1:]]
    losses, sizes = losses[sizes > 0], sizes[sizes > 0]
    parts = [part.mean() for part in np.array_split(losses, max(1, len(losses) // length))]
    loss, interval = float(losses.mean()), interval_of(parts)
    bits = len(losses) / math.log(2) / int(sizes.sum())
    bits_per_byte = loss * bits, interval and [bound * bits for bound in interval]
    return {"loss": (loss, interval), "perplexity": exponential(loss, interval), "bits_per_byte": bits_per_byte}


def documents_of(tokenizer, ids):
    """Returns inputs of a model that say which document of its row each id is of, as `RowBatches` does."""
    begins = ids == tokenizer.bos_id
    if tokenizer.bos_id < 0:
        begins = np.pad(ids[:, :-1] == tokenizer.eos_id, ((0, 0), (1, 0)))
    return {"token_ids": ids, "sequence_ids": np.cumsum(begins, axis=1, dtype="int32")}


def score_task(model, tokenizer, config, name, items):
    """Returns the scores of a task by item: dictionary of name to values, see `score_items`."""
    options = [option for item in items for option in item.options]
    losses, hits = continuation_losses(model, tokenizer, options, config.row_length, config.batch_size, name)
    return score_items(items, losses, hits)


def write_task(run, name, values):
    """Prints and writes the scores of a task, of its values by item, and writes which items are right."""
    scores = {key: mean_of(of_items) for key, of_items in values.items()}
    write_scores(run, name, scores | ({"perplexity": exponential(*scores["loss"])} if "loss" in scores else {}))
    right = json.dumps(values["accuracy"].astype(int).tolist())
    write_atomically(run.results / name / "right.json", right.encode())


def score_synthetic(model, tokenizer, config, text):
    """Returns the share of examples whose answer is right."""
    task = TASKS[config.synthetic]
    rows, right, compute = encode(tokenizer, text, "test").reshape(-1, task.length), [], compiled_losses(model)
    for begin in range(0, len(rows), config.batch_size):
        some = rows[begin : begin + config.batch_size]
        filler = np.zeros((config.batch_size - len(some), task.length), "int32")
        padded = np.concatenate([some, filler])
        hits = compute(padded[:, :-1], padded[:, 1:])[1]
        right.extend(hits[: len(some), task.answers].all(axis=1).tolist())
    return {"exact_match": mean_of(np.array(right, float))}


def exponential(value, interval):
    """Returns the exponential of a value and of its interval, infinite beyond the largest float."""
    with np.errstate(over="ignore"):
        return float(np.exp(value)), interval and np.exp(interval).tolist()


def mean_of(values):
    """Returns the mean of values, and its interval."""
    return float(values.mean()), interval_of(values)


def interval_of(values):
    """Returns the 95 % interval of the mean of independent values, by bootstrap; `None` for few values."""
    if len(values) < FEWEST:
        return None
    values, rng = np.asarray(values), np.random.default_rng(0)
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    return np.quantile(means, (0.025, 0.975)).tolist()


def compiled_losses(model):
    """Returns a function of inputs and labels `(B, n)` to the labels' -log p, and to where they are the likeliest."""

    @tf.function(jit_compile=True, autograph=False)
    def compute(inputs, labels):
        logits = model(inputs, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return losses, tf.argmax(logits, axis=-1, output_type=tf.int32) == labels

    def call(inputs, labels):
        return [tensor.numpy() for tensor in compute(*keras.tree.map_structure(tf.constant, (inputs, labels)))]

    return call


def token_losses(model, ids, length, stride, batch_size, split=None):
    """Returns -log p of each token of a text but the first, float64 `(T - 1,)`.

    Windows of `length` tokens overlap: the first scores all of its labels, later ones their last `stride`. `split`
    makes the model's inputs of their ids.
    """
    if len(ids) < 2:
        raise ValueError(f"A text must have two tokens or more to be scored. Received: {len(ids)}")
    starts = np.arange(0, max(1, len(ids) - 1 - length + stride), stride)
    losses, compute = np.zeros(len(ids) - 1), compiled_losses(model)
    for begin in range(0, len(starts), batch_size):
        batch_starts = starts[begin : begin + batch_size]
        windows = np.zeros((batch_size, length + 1), "int32")
        for row, start in zip(windows, batch_starts, strict=False):
            part = ids[start : start + length + 1]
            row[: len(part)] = part
        inputs = windows[:, :-1]
        batch_losses, _ = compute(inputs if split is None else split(inputs), windows[:, 1:])
        for row, start in zip(batch_losses, batch_starts, strict=False):
            first = 0 if start == 0 else length - stride
            part = losses[start + first : start + length]
            part[:] = row[first : first + len(part)]
    return losses


def continuation_losses(model, tokenizer, options, length, batch_size, name="texts"):
    """Returns -log p of what follows each context, float64 `(N,)`, and whether all its tokens are the likeliest.

    The context's tokens are as many as it has alone, of context and continuation together (Gao et al., "Language model
    evaluation harness"). Of both, the last `length + 1` tokens are read. A text without a context begins after the
    tokenizer's beginning or end token; without these its first token is not scored.

    Args:
        options: pairs of a context and a continuation, str.
    """
    start = [marker for marker in (tokenizer.bos_id, tokenizer.eos_id) if marker >= 0][:1]
    rows, sizes = [], []
    for context, continuation in options:
        whole = encode(tokenizer, context + continuation, name).tolist()
        ids = whole if whole[:1] == start else start + whole
        first = len(ids) - len(whole) + (len(encode(tokenizer, context, name)) if context else 0)
        sizes.append(min(length, len(ids) - max(1, first)))
        rows.append(ids[-length - 1 :])
    losses, hits, compute = np.zeros(len(rows)), np.zeros(len(rows), bool), compiled_losses(model)
    order = np.argsort([len(row) for row in rows], kind="stable")
    for begin in range(0, len(order), batch_size):
        some = order[begin : begin + batch_size]
        longest = len(rows[some[-1]]) - 1
        width = min(length, max(SHORTEST, 2 ** math.ceil(math.log2(max(1, longest)))))
        padded = np.zeros((batch_size, width + 1), "int32")
        for line, index in zip(padded, some, strict=False):
            line[: len(rows[index])] = rows[index]
        outputs = compute(padded[:, :-1], padded[:, 1:])
        for index, own_losses, own_hits in zip(some, *outputs, strict=False):
            end = len(rows[index]) - 1
            part = slice(end - sizes[index], end)
            losses[index], hits[index] = own_losses[part].sum(dtype="float64"), own_hits[part].all()
    return losses, hits
