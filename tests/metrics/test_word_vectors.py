import gzip
import os

import numpy as np
import pytest

from keras_headattn.metrics import read_word_vectors
from tests.refusals import refused

GLOVE = "the 1 2\nüber -0.5 1e-3\n. . 3 4\ncat 5 6\n"


def test_reads_as_other_readers_do(tmp_path):
    with gzip.open(tmp_path / "vectors.txt.gz", "wb") as file:
        file.write(b"\xef\xbb\xbfthe 1 2\n\xff 3 4\n")
    assert read_word_vectors(tmp_path / "vectors.txt.gz", {"the"})["the"].tolist() == [1, 2]
    os.mkfifo(tmp_path / "pipe")
    with refused("pipe", tmp_path):
        read_word_vectors(tmp_path / "pipe", {"the"})


@pytest.mark.parametrize("text", [GLOVE, "4 2\n" + GLOVE, GLOVE.replace("\n", " \n")])
def test_reads_the_words_asked_for(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    vectors = read_word_vectors(path, {"über", ". .", "absent"})
    assert vectors.keys() == {"über", ". ."}
    np.testing.assert_array_equal(vectors["über"], np.float32([-0.5, 1e-3]))
    np.testing.assert_array_equal(vectors[". ."], np.float32([3, 4]))
