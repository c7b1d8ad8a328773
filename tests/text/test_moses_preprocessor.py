import sys

import pytest

from keras_headattn.text import MosesPreprocessor

pytest.importorskip("sacremoses")
TEXT = ["The dog saw Mary.", "Then the dog slept, and Mary left.", "Yes, the cat saw the dog."]


def test_normalizes_and_tokenizes():
    assert MosesPreprocessor("en")(["“Hello” , world… it’s"]) == ['" Hello " , world ... it \'s']
    assert MosesPreprocessor("en", normalize=False)(["“a”"]) == ["“ a ”"]
    assert MosesPreprocessor("en", tokenize=False)(["“a”, b."]) == ['"a," b.']
    assert MosesPreprocessor("en")([""]) == [""]


def test_undo_restores_text():
    preprocessor = MosesPreprocessor("en")
    assert preprocessor.undo(preprocessor(TEXT)) == TEXT
    french = MosesPreprocessor("fr")
    assert french.undo(french(["L'homme n'est pas là."])) == ["L'homme n'est pas là."]


def test_truecaser_knows_names_from_sentence_starts():
    preprocessor = MosesPreprocessor("en")
    preprocessor.train_truecaser(TEXT)
    sentences = ["The cat left.", "Mary slept."]
    assert preprocessor(sentences) == ["the cat left .", "Mary slept ."]
    assert preprocessor.undo(preprocessor(sentences)) == sentences


def test_save_and_load(tmp_path):
    preprocessor = MosesPreprocessor("en", normalize=False)
    preprocessor.train_truecaser(TEXT, tmp_path / "en.json")
    loaded = MosesPreprocessor.load(tmp_path / "en.json")
    assert (loaded.language, loaded.normalize, loaded.tokenize) == ("en", False, True)
    assert loaded.truecaser == preprocessor.truecaser
    assert loaded(["The “dog” left."]) == preprocessor(["The “dog” left."]) == ["the “ dog ” left ."]
    plain = MosesPreprocessor("de")
    plain.save(tmp_path / "de.json")
    assert MosesPreprocessor.load(tmp_path / "de.json").truecaser is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"language": "en"}', '{"language": 5, "normalize": true, "tokenize": true, "truecaser": null}']
)
def test_damaged_files(text, tmp_path):
    (tmp_path / "moses.json").write_text(text)
    with pytest.raises(ValueError, match="moses.json"):
        MosesPreprocessor.load(tmp_path / "moses.json")


def test_absent_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ImportError, match=r"pip install -e .\.\[recipes\]"):
        MosesPreprocessor("en")


@pytest.mark.filterwarnings("ignore")  # jieba's own
def test_chinese_words_are_separated_by_jieba():
    pytest.importorskip("jieba")
    preprocessor = MosesPreprocessor("zh")
    assert preprocessor(["我来到北京清华大学", ""]) == ["我 来到 北京 清华大学", ""]
    assert preprocessor.undo(["我 来到 北京 清华大学"]) == ["我来到北京清华大学"]


def test_chinese_needs_jieba(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    assert MosesPreprocessor("zh", tokenize=False)(["我来到"]) == ["我来到"]
    with pytest.raises(ImportError, match=r"pip install -e .\.\[chinese\]"):
        MosesPreprocessor("zh")
