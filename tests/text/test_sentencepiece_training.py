import gzip
import pathlib
import re

import pytest
import sentencepiece

from headattn_io.sentences import sample_lines
from keras_headattn.text import train_sentencepiece

SENTENCES = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]


def load(path):
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_ids_are_the_librarys_own(tmp_path, model_type):
    path = train_sentencepiece(SENTENCES, tmp_path / "a.model", 25, model_type, user_defined_symbols=["[MASK]"])
    model = load(path)
    assert model.vocab_size() == 25
    assert (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()) == (0, 1, 2, 3)
    assert model.piece_to_id("[MASK]") == 4


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_same_text_gives_the_same_bytes(tmp_path, model_type):
    paths = [train_sentencepiece(SENTENCES, tmp_path / name, 24, model_type) for name in ("a.model", "b.model")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_files_and_sentences_are_equivalent(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("\n".join(SENTENCES[:2]), encoding="utf-8")
    packed.write_bytes(gzip.compress(SENTENCES[2].encode("utf-8")))
    segments = tmp_path / "c.xml"
    segments.write_text("".join(f'<seg id="1"> {text} </seg>\n' for text in SENTENCES[:2]))
    from_files = train_sentencepiece([plain, packed], tmp_path / "files.model", 24)
    from_sentences = train_sentencepiece(SENTENCES, tmp_path / "sentences.model", 24)
    assert from_files.read_bytes() == from_sentences.read_bytes()
    one_file = train_sentencepiece(str(plain), tmp_path / "one.model", 24)
    assert train_sentencepiece(segments, tmp_path / "segments.model", 24).read_bytes() == one_file.read_bytes()
    assert one_file.read_bytes() == train_sentencepiece(SENTENCES[:2], tmp_path / "two.model", 24).read_bytes()


def test_sample_depends_on_the_seed_alone(tmp_path):
    text = [f"word{chr(97 + i % 26)} number{chr(97 + i % 7)}" for i in range(200)]

    def trained(seed):
        path = train_sentencepiece(text, tmp_path / "a.model", 40, max_sentences=50, seed=seed)
        return path.read_bytes()

    assert trained(1) == trained(1)
    assert trained(1) != trained(2)


def test_long_sentences_count(tmp_path):
    path = train_sentencepiece([*SENTENCES, "zebra " * 1000], tmp_path / "a.model", 30)
    assert load(path).encode("zebra", out_type=str) == ["▁zebra"]


def test_quiet(tmp_path, capfd):
    train_sentencepiece(SENTENCES, tmp_path / "a.model", 24)
    with pytest.raises(ValueError):
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 2400)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_too_small_a_text_names_the_largest_size_which_works(tmp_path, model_type):
    with pytest.raises(ValueError, match="largest possible size is .*Received: vocabulary_size=2400") as error:
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 2400, model_type)
    largest = int(re.search(r"size is (\d+)", str(error.value))[1])
    assert load(train_sentencepiece(SENTENCES, tmp_path / "a.model", largest, model_type)).vocab_size() == largest


def test_too_small_a_vocabulary_names_the_smallest_size_which_works(tmp_path):
    with pytest.raises(ValueError, match="smallest possible size") as error:
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 6)
    smallest = int(re.search(r"size is (\d+)", str(error.value))[1])
    assert load(train_sentencepiece(SENTENCES, tmp_path / "a.model", smallest)).vocab_size() == smallest


@pytest.mark.parametrize("vocabulary_size, reason", [
    (3, "must be more than 4"), (5, "must be more than 5"), (0, "must be a positive integer"),
    (24.5, "must be a positive integer"), ("24", "must be a positive integer"),
    (float("nan"), "must be a positive integer"),
])  # fmt: skip
def test_vocabulary_sizes_that_make_no_sense(tmp_path, vocabulary_size, reason):
    symbols = ["[MASK]"] if vocabulary_size == 5 else []
    received = f"`vocabulary_size` {reason}.*Received: vocabulary_size={vocabulary_size}$"
    with pytest.raises(ValueError, match=received):
        train_sentencepiece(SENTENCES, tmp_path / "a.model", vocabulary_size, user_defined_symbols=symbols)


@pytest.mark.parametrize("coverage", [2.0, 0.5, 0, -1, float("nan"), "x", True, None])
def test_character_coverage_out_of_range(tmp_path, coverage):
    received = rf"must be a finite number from 0.98 to 1. Received: character_coverage={coverage!r}$"
    with pytest.raises(ValueError, match=received):
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 24, character_coverage=coverage)


@pytest.mark.parametrize("symbols", [["[M]", "[M]"], [""]])
def test_symbols_twice_or_empty(tmp_path, symbols):
    with pytest.raises(ValueError, match="`user_defined_symbols` must be.*Received: user_defined_symbols="):
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 24, user_defined_symbols=symbols)


def test_sample_of_lines():
    assert sample_lines(iter("abc"), 5) == ["a", "b", "c"]
    pairs = [(i, -i) for i in range(100)]
    chosen = sample_lines(iter(pairs), 10, seed=1)
    assert len(set(chosen)) == 10 and set(chosen) < set(pairs)
    assert chosen == sample_lines(pairs, 10, seed=1) != sample_lines(pairs, 10, seed=2)


@pytest.mark.parametrize("sentences", [[], ["", "  "]])
def test_no_text(tmp_path, sentences):
    with pytest.raises(ValueError, match="no text to train on"):
        train_sentencepiece(sentences, tmp_path / "a.model", 24)


def test_model_type(tmp_path):
    with pytest.raises(ValueError, match="`model_type` must be .*Received: model_type='wordpiece'"):
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 24, "wordpiece")


def test_file_names_as_strings_are_not_taken_for_sentences(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("text", encoding="utf-8")
    with pytest.raises(ValueError, match="pathlib.Path"):
        train_sentencepiece([str(file)], tmp_path / "a.model", 24)


def test_missing_file_and_bad_utf8(tmp_path):
    with pytest.raises(FileNotFoundError):
        train_sentencepiece(pathlib.Path(tmp_path / "none.txt"), tmp_path / "a.model", 24)
    (tmp_path / "latin1.txt").write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin1.txt, line 2 is not UTF-8"):
        train_sentencepiece(tmp_path / "latin1.txt", tmp_path / "a.model", 24)


def test_failure_keeps_the_previous_model_and_leaves_no_litter(tmp_path, monkeypatch):
    path = train_sentencepiece(SENTENCES, tmp_path / "a.model", 24)
    before = path.read_bytes()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_sentencepiece(SENTENCES, path, 25)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.model"]
