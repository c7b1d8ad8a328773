"""Search among the few tokens that may translate a source."""

import dataclasses
import io
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from keras import ops

from keras_headattn._files import Path, write_atomically
from keras_headattn._validation import check_positive
from keras_headattn.decoding._constraints import NEVER

MOST_BYTES = 2**30  # of a saved list; a few kB may hold more than the memory


@dataclasses.dataclass(frozen=True)
class Shortlist:
    """Target tokens that may translate each source token, for searches among them alone.

    The output layer then computes few logits. Tokens outside, except the end, cannot be produced, and log probabilities
    are of the tokens inside.

    Source: Jean et al. 2015, "On using very large target vocabulary for neural machine translation", section 3.2.

    Args:
        table: int32 `(source vocabulary, m)`, the likeliest target ids of each source id first, zeros after the last.
        always: ids that are in every list, such as those of frequent words.
        size: int S, number of ids in a list. If there are more, the likeliest of each source token stay.

    Raises:
        ValueError: if an argument is invalid.

    >>> shortlist = Shortlist(np.array([[0, 0], [5, 6], [7, 0]]), always=[9], size=4)
    >>> shortlist.ids(np.array([[1, 2, 0]])).tolist()
    [9, 5, 7, 6]
    """

    table: np.ndarray
    always: Sequence[int] = ()
    size: int = 1000

    def __post_init__(self):
        table = np.asarray(self.table)
        if table.ndim != 2 or table.dtype.kind != "i" or table.size and table.min() < 0:
            raise ValueError(
                "`table` must be ids of the shape (source vocabulary, m). "
                f"Received: {table.dtype} of shape {table.shape}"
            )
        check_positive("size", self.size)
        always = np.asarray(self.always)
        if always.ndim != 1 or always.size and (always.dtype.kind != "i" or always.min() < 0):
            raise ValueError(f"`always` must be a list of ids. Received: always={always.tolist()!r:.80}")
        if len(self.always) > self.size:
            raise ValueError(f"`always` must have at most {self.size} ids, the size. Received: {len(self.always)} ids")

    def ids(self, sources: np.ndarray, also: Any = ()) -> np.ndarray:
        """Returns the ids for a batch, int32 `(size,)`, zeros after the last.

        Args:
            sources: token ids `(B, n)`, 0 = padding.
            also: array of other ids, which come first, such as prefixes.

        Raises:
            ValueError: if there are more than `size` other ids.
        """
        sources, also = np.ravel(sources), np.ravel(np.asarray(also, "int64"))
        if (count := np.count_nonzero(np.unique(also))) > self.size:
            raise ValueError(f"`also` must have at most {self.size} ids, the size. Received: {count} ids")
        ids = np.asarray(self.table)[sources[sources != 0]].T  # the likeliest of all, then the next
        ids = np.concatenate([np.ravel(np.asarray(x, "int64")) for x in (also, self.always, ids)])
        ids = ids[np.sort(np.unique(ids, return_index=True)[1])]
        ids = ids[ids != 0][: self.size]
        return np.pad(ids, (0, self.size - len(ids))).astype("int32")

    def save(self, path: Path) -> None:
        """Writes the list to a file of NumPy.

        Args:
            path: str or path, ending in `.npz`.

        Raises:
            OSError: if it cannot be written.
        """
        file = io.BytesIO()
        np.savez_compressed(file, table=self.table, always=np.asarray(self.always, "int32"), size=self.size)
        write_atomically(pathlib.Path(path), file.getvalue())

    @classmethod
    def load(cls, path: Path, size: int | None = None) -> Self:
        """Reads what `save` wrote.

        Args:
            path: str or path.
            size: int, another number of ids in a list. Default `None`: as saved.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is no shortlist, or `size` is below the number of ids in every list.
        """
        try:
            with np.load(path) as archive:
                if sum(member.file_size for member in archive.zip.infolist()) > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
                made = cls(archive["table"], archive["always"].tolist(), archive["size"].item())
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError, MemoryError) as error:
            raise ValueError(f"The file must be a shortlist ({error}). Received: {path}") from error
        return made if size is None else dataclasses.replace(made, size=size)

    @classmethod
    def from_probabilities(
        cls,
        sources: Sequence[int] | np.ndarray,
        targets: Sequence[int] | np.ndarray,
        probabilities: Sequence[float] | np.ndarray,
        source_size: int,
        candidates: int = 50,
        always: Sequence[int] = (),
        size: int = 1000,
    ) -> Self:
        """Makes the list of a lexical table.

        Args:
            sources, targets, probabilities: `(entries,)`, a source id, a target id, and how likely it translates it.
            source_size: int, size of the source vocabulary.
            candidates: int, most target ids of each source id, the likeliest. Default 50.
            always, size: see the class.

        Raises:
            ValueError: if the entries differ in number, or a source id is not of the vocabulary.

        >>> Shortlist.from_probabilities([1, 1, 2], [5, 6, 7], [0.2, 0.8, 1.0], 3, candidates=2).table.tolist()
        [[0, 0], [6, 5], [7, 0]]
        """
        sources, targets = np.asarray(sources, "int64"), np.asarray(targets, "int64")
        if not len(sources) == len(targets) == len(probabilities):
            raise ValueError(
                "`sources`, `targets` and `probabilities` must be of the same length. "
                f"Received: {len(sources)}, {len(targets)} and {len(probabilities)}"
            )
        if sources.size and not 0 <= sources.min() <= sources.max() < source_size:
            raise ValueError(
                f"`sources` must be ids below `source_size`. Received: ids from {sources.min()} to {sources.max()}, "
                f"source_size={source_size}"
            )
        order = np.lexsort((-np.asarray(probabilities), sources))
        sources, targets = sources[order], targets[order]
        rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
        kept = rank < candidates
        table = np.zeros((source_size, candidates), "int32")
        table[sources[kept], rank[kept]] = targets[kept]
        return cls(table, always, size)

    @classmethod
    def learn(
        cls,
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        source_size: int,
        candidates: int = 50,
        frequent: int = 100,
        size: int = 1000,
        iterations: int = 5,
    ) -> Self:
        """Learns which tokens translate which from pairs of sentences, by IBM's first model.

        Memory is 4 bytes for each pair of a source and a target token of one sentence, and 40 for each different one.

        Source: Brown et al. 1993, "The mathematics of statistical machine translation: parameter estimation", model 1.

        Args:
            sources, targets: lists of token ids, int arrays, without padding.
            source_size: int, size of the source vocabulary.
            candidates: int, target ids for each source id. Default 50.
            frequent: int, how many of the most frequent target ids are always in the list. Default 100.
            size: see the class. Default 1000.
            iterations: int, of expectation maximisation. Default 5.

        Raises:
            ValueError: if there are no pairs, or not as many sources as targets.
        """
        if len(sources) != len(targets) or not len(sources):
            raise ValueError(
                "`sources` and `targets` must be lists of the same length, at least 1. "
                f"Received: {len(sources)} and {len(targets)}"
            )
        counts = np.bincount(np.concatenate(targets))
        pairs, probabilities = _translations(sources, targets, len(counts), iterations)
        often = np.argsort(-counts, kind="stable")[:frequent]
        always = [int(token) for token in often if counts[token] and token]
        of_source, of_target = np.divmod(pairs, len(counts))
        return cls.from_probabilities(of_source, of_target, probabilities, source_size, candidates, always, size)


def _translations(sources, targets, size, iterations, portion=2000):
    """Returns pairs of tokens, `source * size + target`, and the probability of the target given the source."""
    parts = [slice(start, start + portion) for start in range(0, len(sources), portion)]
    pairs = _different(np.concatenate([_different(_codes(sources[part], targets[part], size)[0]) for part in parts]))
    places, lengths = [], []
    for part in parts:
        codes, source_lengths = _codes(sources[part], targets[part], size)
        places.append(np.searchsorted(pairs, codes).astype("int32"))
        lengths.append(source_lengths)
    source, weights = pairs // size, np.ones(len(pairs))
    for _ in range(iterations):
        counts = np.zeros(len(pairs))
        for indices, source_lengths in zip(places, lengths, strict=True):
            share = weights[indices]
            total = np.add.reduceat(share, np.cumsum(source_lengths) - source_lengths)
            np.add.at(counts, indices, share / np.repeat(total, source_lengths))
        weights = counts / np.bincount(source, counts)[source]
    return pairs, weights


def _different(codes):
    """Returns different codes in order; `np.unique` takes several times as long."""
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) != 0]


def _codes(sources, targets, size):
    """Returns the codes of all pairs of sentences, by target token, and how many each target token has."""
    codes, lengths = [], []
    for source, target in zip(sources, targets, strict=True):
        if len(source) and len(target):
            codes.append(np.add.outer(np.asarray(target, "int64"), np.asarray(source, "int64") * size).reshape(-1))
            lengths.append(np.full(len(target), len(source)))
    return (np.concatenate(codes), np.concatenate(lengths)) if codes else (np.zeros(0, "int64"), np.zeros(0, "int64"))


def narrow(model, kernels, shortlist, start_id, end_id, constraints):
    """Returns ids of the tokens of a search, what is added to their logits, and kernels and constraints for them.

    Padding, end and start come first: their places are 0, 1 and 2. The start is allowed only if the list has it.
    """
    _check_model(model)
    shortlist = ops.cast(shortlist, "int32")
    first = ops.convert_to_tensor([0, end_id, start_id], "int32")
    ids = ops.concatenate([first, shortlist], axis=0)
    has_start = ops.any(ops.equal(shortlist, start_id)) if start_id not in (0, end_id) else False
    forbidden = ops.concatenate(
        [ops.stack([True, False, ops.logical_not(has_start)]), ops.any(ops.equal(shortlist[:, None], first), axis=1)],
        axis=0,
    )
    kernel, bias = model.output_weights(ids)
    output = {"kernel": kernel} | ({} if bias is None else {"bias": bias})
    tokens = {"prefix": constraints.prefix, "suppress": constraints.suppress or None}
    places = {name: _places(token_ids, ids) for name, token_ids in tokens.items() if token_ids is not None}
    constraints = dataclasses.replace(constraints, **places)
    return ids, ops.where(forbidden, NEVER, 0.0), {**kernels, "output": output}, constraints


def _places(tokens, ids):
    """Returns the first place of each token in `ids`, -1 if it has none."""
    is_here = ops.equal(ops.convert_to_tensor(tokens, "int32")[..., None], ids)
    return ops.where(ops.any(is_here, axis=-1), ops.argmax(ops.cast(is_here, "int32"), axis=-1), -1)


def _check_model(model):
    if not hasattr(model, "output_weights"):
        raise ValueError(f"`shortlist` needs a Transformer. Received: a model of class {type(model).__name__}")


def check_shortlist(shortlist, model):
    """Returns a `Shortlist`, or `None`; one that is not of the model's vocabularies is a ValueError."""
    if shortlist is None:
        return None
    _check_model(model)
    source_size = model.source_vocabulary_size
    target_size = model.target_vocabulary_size or source_size
    rows, last = len(shortlist.table), int(max(np.max(shortlist.table, initial=0), *shortlist.always, 0))
    if rows != source_size or last >= target_size:
        raise ValueError(
            f"`shortlist` must be of the vocabularies, of {source_size} and {target_size} "
            f"tokens. Received: a table of {rows} source tokens, with target ids up to {last}"
        )
    return shortlist
