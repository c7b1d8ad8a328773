import keras
import numpy as np
import pytest

from keras_headattn.text import WordTokenizer
from recipes.classify.text import assign_word_vectors, word_vector_width
from tests.refusals import refused

GLOVE = "the 1 2\nüber -0.5 1e-3\n. . 3 4\ncat 5 6\n"


@pytest.mark.parametrize("text", [GLOVE, "4 2\n" + GLOVE])
def test_width(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    assert word_vector_width(path) == 2


def test_width_of_no_vectors(tmp_path):
    (tmp_path / "vectors.txt").write_text("the\n")
    with refused("numbers", "vectors.txt, 'the'"):
        word_vector_width(tmp_path / "vectors.txt")


def test_vectors_of_words():
    tokenizer = WordTokenizer(["red", "blue", "one"])
    embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 3)
    embedding.build()
    before = np.array(embedding.embeddings)
    assert assign_word_vectors(embedding, tokenizer, {"green": [9, 9, 9]}) == []
    np.testing.assert_array_equal(embedding.embeddings, before)
    assert assign_word_vectors(embedding, tokenizer, {"one": [7, 8, 9], "red": [1, 2, 3]}) == [2, 4]
    after = np.array(embedding.embeddings)
    assert after[2].tolist() == [1, 2, 3] and after[4].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
