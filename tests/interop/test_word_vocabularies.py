"""Vocabularies of other programs, whose tokens stand between spaces in text."""

import pytest

from keras_headattn.interop import read_vocabularies
from keras_headattn.text import SentencePieceTokenizer
from recipes.translate.settings import TranslateConfig
from recipes.translate.text import make_text
from tests.refusals import refused

BOTH = "a\ncat\n.\n<@@@>\neine\nKatze\n.\n"  # as of attention-is-all-you-need-keras


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_ids_are_those_of_the_library(tmp_path):
    source, target = map(SentencePieceTokenizer, read_vocabularies(write(tmp_path / "en2de_word.txt", BOTH)))
    assert [ids.tolist() for ids in source.encode(["a cat .", "A  cat."])] == [[4, 5, 6, 3], [1, 3]]
    assert source(["a cat ."]).numpy().tolist() == [[4, 5, 6, 3]] and source.vocabulary_size == 7
    assert target.detokenize([[4, 5, 6, 3, 0]]).numpy() == [b"eine Katze ."]
    with_begin = SentencePieceTokenizer(read_vocabularies(tmp_path / "en2de_word.txt")[0], add_bos=True)
    assert with_begin(["a dog ."]).numpy().tolist() == [[2, 4, 1, 6, 3]]


def test_fairseq_and_plain_lists(tmp_path):
    (fairseq,) = read_vocabularies(write(tmp_path / "dict.en.txt", "a 12\ncat@@ 7\n10 3 #fairseq:overwrite\n"))
    (plain,) = read_vocabularies(write(tmp_path / "words.txt", "\ufeffa\r\ncat@@\r\n\r\n10"))
    assert fairseq == plain
    assert SentencePieceTokenizer(fairseq).encode(["10 cat@@ s"])[0].tolist() == [6, 5, 1, 3]


@pytest.mark.parametrize("text, place, received", [
    ("a\ntwo words\n", "dict.txt, line 2", "'two words'"),
    ("a 1\nb\n", "dict.txt, line 2", "'b'"),
    ("\u2581a 1\n", "dict.txt, line 1", "'\u2581a 1'"),
    ("a\nb\na\n", "dict.txt", "3 tokens, twice ['a'], of 1 languages"),
    ("", "dict.txt", "0 tokens"),
    ("a\n<@@@>\n", "dict.txt", "0 tokens, twice [], of 2 languages"),
    ("a\n<@@@>\nb\n<@@@>\nc\n", "dict.txt", "of 3 languages"),
])  # fmt: skip
def test_mistakes(tmp_path, text, place, received):
    with refused(place, received):
        read_vocabularies(write(tmp_path / "dict.txt", text))


def test_a_run_takes_them_in_place_of_learning(tmp_path):
    both, one = write(tmp_path / "both.txt", BOTH), write(tmp_path / "dict.txt", "a 2\nKatze 1\n")
    text = make_text(TranslateConfig(vocabulary=(str(both),), shared_vocabulary=False), None, tmp_path / "both")
    assert [tokenizer.vocabulary_size for tokenizer in (text.source, text.target)] == [7, 7]
    shared = TranslateConfig(vocabulary=(str(one),))
    text = make_text(shared, None, tmp_path / "one")
    assert text.source is text.target and text.encode_target(["Katze a"])[0].tolist() == [5, 4, 3]
    given = TranslateConfig(vocabulary=(str(tmp_path / "one" / "vocabulary.model"), str(one)), shared_vocabulary=False)
    text = make_text(given, None, tmp_path / "two")  # of a SentencePiece model, and of a list
    assert text.encode_source(["Katze"])[0].tolist() == text.encode_target(["Katze"])[0].tolist()
    one.unlink()
    make_text(shared, None, tmp_path / "one")  # the run has them by now
    with refused("--no-shared-vocabulary", f"2 in {both}, shared_vocabulary=True"):
        make_text(TranslateConfig(vocabulary=(str(both),)), None, tmp_path / "three")
    with refused("--vocabulary-size", 100):
        shared.refuse_unused({"vocabulary_size": 100})
