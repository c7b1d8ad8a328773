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
