import numpy as np
import pytest

from keras_headattn.metrics import read_word_vectors

GLOVE = "the 1 2\nüber -0.5 1e-3\n. . 3 4\ncat 5 6\n"


@pytest.mark.parametrize("text", [GLOVE, "4 2\n" + GLOVE, GLOVE.replace("\n", " \n")])
def test_reads_the_words_asked_for(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    vectors = read_word_vectors(path, {"über", ". .", "absent"})
    assert vectors.keys() == {"über", ". ."}
    np.testing.assert_array_equal(vectors["über"], np.float32([-0.5, 1e-3]))
    np.testing.assert_array_equal(vectors[". ."], np.float32([3, 4]))


@pytest.mark.parametrize(("last", "number"), [("dog 7", 5), ("cat x y", 5), ("", 5)])
def test_broken_line(tmp_path, last, number):
    path = tmp_path / "vectors.txt"
    path.write_text(GLOVE + last + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"Line {number} .* a word and 2 numbers. Received: '{last}"):
        read_word_vectors(path, {"cat"})


@pytest.mark.parametrize("text", [GLOVE, ""])
def test_no_word_found(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="none of the words.*Received: .*vectors.txt"):
        read_word_vectors(path, {"Katze"})
