import numpy as np
import pytest

from keras_headattn.analysis import max_num_heads


@pytest.mark.parametrize("lengths", [20, 25, 25.5])
def test_table_2(lengths):
    """512 wide, mean length 20, 25 and 26 give 25, 20 and 20: the last a mean of 25.5, printed rounded."""
    assert max_num_heads(512, lengths) == (25 if lengths == 20 else 20, [2, 4, 8, 16])


@pytest.mark.parametrize(
    "width, lengths, expected",
    [
        (512, [10, 30], (25, [2, 4, 8, 16])),
        (512, iter([[1] * 10, [2] * 30]), (25, [2, 4, 8, 16])),
        (512, 600, (1, [])),
        (96, 3, (32, [2, 4, 8, 16, 32])),
        (24, 1, (24, [2, 4, 8])),
        (512, np.array([10, 30]), (25, [2, 4, 8, 16])),
        (512, 32, (16, [2, 4, 8, 16])),
    ],
    ids=[f"case{number}" for number in range(7)],  # one is an iterator, whose name is never the same
)
def test_lengths(width, lengths, expected):
    assert max_num_heads(width, lengths) == expected


def test_reads_a_data_set():
    tf = pytest.importorskip("tensorflow")
    ragged = tf.data.Dataset.from_generator(
        lambda: (np.zeros(n, "int32") for n in (10, 30)), output_signature=tf.TensorSpec((None,), "int32")
    )
    assert max_num_heads(512, ragged) == (25, [2, 4, 8, 16])


def test_reads_a_data_set_of_lengths():
    tf = pytest.importorskip("tensorflow")
    assert max_num_heads(512, tf.data.Dataset.from_tensor_slices([10, 30])) == (25, [2, 4, 8, 16])


def test_batches_and_pairs_are_refused():
    tf = pytest.importorskip("tensorflow")
    pairs = tf.data.Dataset.from_tensors((np.zeros(20), np.zeros(30)))
    named = tf.data.Dataset.from_tensors({"source": np.zeros(20), "target": np.zeros(30)})
    batches = tf.data.Dataset.from_tensor_slices(np.zeros((64, 20))).batch(32)
    ragged = tf.data.Dataset.from_tensors(tf.ragged.constant([[1, 2], [3]]))
    for lengths, received in (
        (pairs, "an item of type tuple"),
        (named, "an item of type dict"),
        (batches, "an item with 2 axes"),
        (ragged, "an item with 2 axes"),
        ([[[1, 2], [3]]], "an item with 2 axes"),
    ):
        with pytest.raises(ValueError, match=f"`lengths` must .*Received: {received}"):
            max_num_heads(512, lengths)


@pytest.mark.parametrize(
    "width, lengths, name",
    [(512, lengths, "length") for lengths in ([], 0, -3, [0, 0])]
    + [(width, 20, "model_dim") for width in (0, -1, 2.5)],
)
def test_errors(width, lengths, name):
    with pytest.raises(ValueError, match=name):
        max_num_heads(width, lengths)
