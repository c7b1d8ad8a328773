import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import choose_buckets, pad_ids, source_batches
from tests.refusals import refused


def padded_positions(lengths, buckets):
    return sum(min(bucket for bucket in buckets if bucket >= length) for length in lengths)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 4))
def test_no_other_choice_pads_less(lengths, number):
    buckets = choose_buckets(lengths, number)
    distinct = sorted(set(lengths))
    assert list(buckets) == sorted(set(buckets))
    assert len(buckets) == min(number, len(distinct)) and buckets[-1] == distinct[-1]
    others = itertools.combinations(distinct[:-1], len(buckets) - 1)
    best = min(padded_positions(lengths, (*other, distinct[-1])) for other in others)
    assert padded_positions(lengths, buckets) == best


def test_pad_ids_without_sentences():
    assert pad_ids([], 2, 3).tolist() == [[0, 0, 0], [0, 0, 0]]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.floats(0.01, 0.6))
def test_no_fewer_buckets_keep_to_a_share_of_padding(lengths, share):
    def padding(buckets):
        return 1 - sum(lengths) / padded_positions(lengths, buckets)

    buckets = choose_buckets(lengths, 9, share)
    assert padding(buckets) <= share + 1e-9 and buckets == choose_buckets(lengths, len(buckets))
    if len(buckets) > 1:
        fewer = len(buckets) - 1
        assert padding(choose_buckets(lengths, fewer)) > share
        with refused(f"With {fewer} buckets", f"max_buckets={fewer}"):
            choose_buckets(lengths, fewer, share)
    values, counts = np.unique(lengths, return_counts=True)
    assert choose_buckets(values, 9, share, counts) == buckets


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), max_size=40), st.integers(1, 5))
def test_source_batches_serve_every_sentence_in_fixed_shapes(lengths, batch_size):
    ids = [np.full(length, number) for number, length in enumerate(lengths, 4)]
    seen, longest = [], 0
    for indices, padded in source_batches(ids, (3, 6, 12), batch_size):
        assert padded.shape in {(batch_size, length) for length in (3, 6, 12)} and padded.dtype == "int32"
        assert padded.shape[1] >= longest
        longest = padded.shape[1]
        for index, row in zip(indices, padded, strict=False):
            assert row[row != 0].tolist() == ids[index].tolist()
        assert not padded[len(indices) :].any()
        seen += indices.tolist()
    assert sorted(seen) == list(range(len(ids)))


def test_source_batches_of_columns():
    """All of an example are padded to the longest of them; rows without ids have the filler."""
    columns = {"text": [[5], [6, 7, 8], []], "second_text": [[5, 6], [9], []]}
    found = [
        (indices.tolist(), {name: ids.tolist() for name, ids in padded.items()})
        for indices, padded in source_batches(columns, (2, 4), 3, filler=1)
    ]
    assert found == [
        ([2, 0], {"text": [[1, 0], [5, 0], [1, 0]], "second_text": [[1, 0], [5, 6], [1, 0]]}),
        ([1], {"text": [[6, 7, 8, 0], [1, 0, 0, 0], [1, 0, 0, 0]], "second_text": [[9, 0, 0, 0]] + [[1, 0, 0, 0]] * 2}),
    ]


def test_padding_with_another_id():
    columns = {"token_ids": [[5, 3], [4]], "segment_ids": [[0, 1], [0]]}
    ((indices, padded),) = source_batches(columns, (3,), batch_size=3, filler=2, pad_id=1)
    assert indices.tolist() == [1, 0]
    assert padded["token_ids"].tolist() == [[4, 1, 1], [5, 3, 1], [2, 1, 1]]
    assert padded["segment_ids"].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
