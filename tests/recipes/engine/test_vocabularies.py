from keras_headattn.text import SentencePieceTokenizer, learn_wordpieces
from recipes.engine.data import learn_tokenizer
from tests.refusals import refused

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
    with refused("no vocabulary.txt", "texts=None"):
        learn_tokenizer(tmp_path / "vocabulary.txt")
    with refused("kind", "'letters'"):
        learn_tokenizer(tmp_path / "vocabulary.txt", TEXTS, "letters")


def test_wordpieces(tmp_path):
    path = tmp_path / "vocab.txt"
    tokenizer = learn_tokenizer(path, TEXTS, "wordpieces", vocabulary_size=60)
    assert tokenizer.vocabulary == tuple(learn_wordpieces(TEXTS, 60))
    assert learn_tokenizer(path, kind="wordpieces").vocabulary == tokenizer.vocabulary
