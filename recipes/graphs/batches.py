"""Batches of graphs and their texts, in a few fixed shapes."""

import numpy as np

from keras_headattn.data import MemoryBatches, choose_buckets, pad_ids, teacher_forcing


class GraphBatches(MemoryBatches):
    """Batches of graphs with about as many words each, for `fit`; `dataset()` makes a `tf.data.Dataset`.

    Examples are put together by the length of their text, and of these by the number of vertices. Each such bucket has
    one shape: the most entities, words of a name, triples and words of a title of its examples. A bucket of texts of
    length L has `tokens_per_batch // L` rows; the last batch of an epoch is filled up with rows of zeros. Each example
    comes exactly once an epoch. The order is a function of `(seed, epoch)` alone, so that training can be resumed
    exactly: `keras_headattn.training.Resume` sets `epoch`. Each item is a tuple `(inputs, labels, sample_weight)`, as
    `teacher_forcing` makes it, with the inputs of `models.GraphWriter`.

    Args:
        examples: list of dictionaries, as `GraphVocabulary.encode` makes them, with `"target"`, ids of a text.
        tokens_per_batch: int, positions of texts in a batch, padding included. Default 3,520: 32 texts of 110 words.
        num_buckets: int, of texts, at most. Default 3.
        num_graph_buckets: int, of graphs, within each of those, at most. Default 2.
        num_replicas: int, row counts are multiples of it. Default 1.
        shuffle: True for another order in each epoch. False for batches to evaluate on, whose loss is that over tokens.
        seed: int. Default 0.

    >>> example = {"entities": [[4], [5, 6]], "types": [4, 5], "triples": [[0, 3, 1]], "target": [9, 6, 10, 3]}
    >>> inputs, labels, weights = GraphBatches([example], tokens_per_batch=4)[0]
    >>> {name: ids.shape for name, ids in inputs.items()}
    {'entities': (1, 2, 2), 'types': (1, 2), 'triples': (1, 1, 3), 'target': (1, 4)}
    """

    def __init__(
        self,
        examples,
        tokens_per_batch=3520,
        num_buckets=3,
        num_graph_buckets=2,
        num_replicas=1,
        shuffle=True,
        seed=0,
        **kwargs,
    ):
        self.examples = list(examples)
        lengths = np.array([len(example["target"]) for example in self.examples])
        bucket = np.searchsorted(choose_buckets(lengths, num_buckets), lengths)
        bucket, sizes = _split(self.examples, bucket, num_graph_buckets)
        self.sizes = [size_of(self.examples, np.flatnonzero(bucket == index)) for index in range(sizes)]
        ends = [size["target"] for size in self.sizes]
        rows = [tokens_per_batch // length // num_replicas * num_replicas for length in ends]
        targets = {"target": [example["target"] for example in self.examples]}
        super().__init__(targets, rows, ends, shuffle, seed, bucket=bucket, **kwargs)

    def make_batch(self, bucket, members):
        examples = [self.examples[member] for member in members]
        columns = pad_graphs(examples, self.rows[bucket], self.sizes[bucket])
        tokens_per_row = None if self.shuffle else self.num_tokens["target"] / self.num_rows
        return teacher_forcing(columns, tokens_per_row=tokens_per_row)


def num_vertices(example):
    """Counts entities, the global vertex, and two for each triple."""
    return len(example["entities"]) + 1 + 2 * len(example["triples"])


def _split(examples, bucket, num_graph_buckets):
    """Splits buckets by the number of vertices: new buckets, in the order of the old ones, and their number."""
    vertices = np.array(list(map(num_vertices, examples)))
    new_bucket, count = np.zeros(len(bucket), int), 0
    for old in np.unique(bucket):
        members = np.flatnonzero(bucket == old)
        ends = choose_buckets(vertices[members], num_graph_buckets)
        new_bucket[members] = count + np.searchsorted(ends, vertices[members])
        count += len(ends)
    return new_bucket, count


def size_of(examples, members):
    """Returns the most entities, words of a name, triples, words of a title and of a text: dictionary of str to int."""
    some = [examples[member] for member in members]
    names = [name for name in ("title", "target") if name in some[0]]
    return {
        "entities": max(len(example["entities"]) for example in some),
        "words": max(len(name) for example in some for name in example["entities"]),
        "triples": max(1, *(len(example["triples"]) for example in some), 1),
        **{name: max(1, *(len(example[name]) for example in some), 1) for name in names},
    }


def pad_graphs(examples, rows, size):
    """Pads graphs to arrays with so many rows and the sizes of `size_of`: int32 inputs of `models.GraphWriter`."""
    entities = np.zeros((rows, size["entities"], size["words"]), "int32")
    triples = np.zeros((rows, size["triples"], 3), "int32")
    for row, example in enumerate(examples):
        count = len(example["entities"])
        entities[row, :count] = pad_ids(example["entities"], count, size["words"])
        triples[row, : len(example["triples"])] = np.reshape(example["triples"], (-1, 3))
    inputs = {"entities": entities, "types": _column(examples, "types", rows, size["entities"]), "triples": triples}
    return inputs | {name: _column(examples, name, rows, size[name]) for name in ("title", "target") if name in size}


def _column(examples, name, rows, length):
    return pad_ids([example[name] for example in examples], rows, length)


def graph_batches(examples, batch_size=16, num_buckets=4):
    """Makes batches of graphs, smallest first, to write their texts: in one shape for each of some buckets.

    Returns a list of `(indices, inputs)`: the positions `(k,)` of the first k rows among the examples, and the inputs
    of `models.GraphWriter` without `"target"`, `batch_size` rows, padded.

    >>> example = {"entities": [[4], [5, 6]], "types": [4, 5], "triples": [[0, 3, 1]]}
    >>> [(indices, inputs)] = graph_batches([example], batch_size=2)
    >>> indices.tolist(), inputs["entities"].shape
    ([0], (2, 2, 2))
    """
    examples = [{name: ids for name, ids in example.items() if name != "target"} for example in examples]
    vertices = np.array(list(map(num_vertices, examples)))
    bucket = np.searchsorted(choose_buckets(vertices, num_buckets), vertices)
    batches = []
    for index in np.unique(bucket):
        members = np.flatnonzero(bucket == index)
        members = members[np.argsort(vertices[members], kind="stable")]
        size = size_of(examples, members)
        for start in range(0, len(members), batch_size):
            some = members[start : start + batch_size]
            batches.append((some, pad_graphs([examples[member] for member in some], batch_size, size)))
    return batches
