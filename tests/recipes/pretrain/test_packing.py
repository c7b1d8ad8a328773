import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recipes.pretrain.packing import COLUMNS, pack_lines, sequence_row


class Draws:
    """Random numbers that were drawn before, in their order."""

    def __init__(self, draws):
        self.left = list(draws)

    def random(self):
        return self.left.pop(0)

    def integers(self, least, most, endpoint):
        assert endpoint and least <= self.left[0] <= most
        return self.left.pop(0)


def test_the_sequences_of_the_original_program(golden):
    """google-research/electra, build_pretraining_dataset.py, by the numbers that it drew."""
    there = golden("electra_packing.npz")
    ends = np.cumsum(there["line_lengths"])
    lines = [
        there["tokens"][end - size : end].tolist() if size else None
        for size, end in zip(there["line_lengths"].tolist(), ends.tolist(), strict=True)
    ]
    draws = Draws(there["draws"].tolist())
    rows = [sequence_row(*segments, 32, 2, 3) for segments in pack_lines(lines, 32, draws)]
    for name, other in zip(COLUMNS, ("input_ids", "attention_mask", "segment_ids"), strict=True):
        np.testing.assert_array_equal([row[name] for row in rows], there[other])
    assert not draws.left


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=40), st.integers(6, 24), st.integers(0, 99))
def test_no_sequence_crosses_documents(sizes, max_length, seed):
    """Token i is the i-th of the text; what is in a sequence comes from one document, in order within each segment."""
    numbers, documents, lines = iter(range(10_000)), [], []
    for size in sizes:
        lines.append(None if size is None else [next(numbers) for _ in range(size)])
    document = 0
    for line in lines:
        document += line is None
        documents += [document] * len(line or ())
    seen = []
    for first, second in pack_lines(lines, max_length, np.random.default_rng(seed)):
        assert len(first) + len(second) + 2 + bool(second) <= max_length and first
        assert len({documents[token] for token in first + second}) == 1
        assert first == sorted(first) and second == sorted(second)
        seen += first + second
    assert len(seen) == len(set(seen))
    assert {documents[token] for token in seen} == set(documents)


def test_the_proportions():
    """A tenth has one segment; a twentieth of the targets is shorter; the others are full."""
    lines = [[5] * 8 for _ in range(40_000)]
    pairs = list(pack_lines(lines, 64, np.random.default_rng(0)))
    single = np.mean([not second for _, second in pairs])
    short = np.mean([len(first) + len(second) < 56 for first, second in pairs])
    assert 0.09 < single < 0.13 and 0.03 < short < 0.06  # a few short ones are of one line, and so of one segment


def test_a_row_is_padded():
    row = sequence_row([7], [], 6, 2, 3)
    assert {name: ids.tolist() for name, ids in row.items()} == {
        "input_ids": [2, 7, 3, 0, 0, 0],
        "input_mask": [1, 1, 1, 0, 0, 0],
        "segment_ids": [0] * 6,
    }
    assert {ids.dtype for ids in row.values()} == {np.dtype("int64")}
