import keras
import numpy as np
import pytest

from keras_headattn.text import SentencePieceTokenizer, WordTokenizer, assign_word_vectors, learn_tokenizer

TEXTS = ["A cat sat", "a dog sat", "the Cat"]


def test_words(tmp_path):
    path = tmp_path / "vocabulary.txt"
    tokenizer = learn_tokenizer(path, iter(TEXTS), vocabulary_size=5, min_count=2)
    assert tokenizer.vocabulary == ("a", "cat", "sat") and path.read_text() == "a\ncat\nsat\n"
    assert learn_tokenizer(path).vocabulary == tokenizer.vocabulary
    assert learn_tokenizer(path, ["other words"]).vocabulary == tokenizer.vocabulary
    assert "Cat" in learn_tokenizer(tmp_path / "cased.txt", TEXTS, lowercase=False).vocabulary


def test_pieces(tmp_path):
    tokenizer = learn_tokenizer(tmp_path / "vocabulary.model", TEXTS, "pieces", 16)
    assert isinstance(tokenizer, SentencePieceTokenizer) and tokenizer.lowercase
    assert tokenizer.detokenize(tokenizer(["A Cat"])).numpy() == [b"a cat"]


def test_no_text_to_learn_from(tmp_path):
    with pytest.raises(ValueError, match="has no vocabulary.txt.*Received: texts=None"):
        learn_tokenizer(tmp_path / "vocabulary.txt")
    with pytest.raises(ValueError, match="words, pieces, wordpieces. Received: kind='letters'"):
        learn_tokenizer(tmp_path / "vocabulary.txt", TEXTS, "letters")


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
