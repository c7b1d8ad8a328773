import gzip
import re

import pytest
import sentencepiece

from keras_headattn._sentences import sample_lines
from keras_headattn.text import train_sentencepiece
from tests.refusals import refused

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
    with refused("largest possible size", 2400) as error:
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 2400, model_type)
    largest = int(re.search(r"size is (\d+)", str(error.value))[1])
    assert load(train_sentencepiece(SENTENCES, tmp_path / "a.model", largest, model_type)).vocab_size() == largest


def test_too_small_a_vocabulary_names_the_smallest_size_which_works(tmp_path):
    with refused("smallest possible size", 6) as error:
        train_sentencepiece(SENTENCES, tmp_path / "a.model", 6)
    smallest = int(re.search(r"size is (\d+)", str(error.value))[1])
    assert load(train_sentencepiece(SENTENCES, tmp_path / "a.model", smallest)).vocab_size() == smallest


def test_sample_of_lines():
    assert sample_lines(iter("abc"), 5) == ["a", "b", "c"]
    pairs = [(i, -i) for i in range(100)]
    chosen = sample_lines(iter(pairs), 10, seed=1)
    assert len(set(chosen)) == 10 and set(chosen) < set(pairs)
    assert chosen == sample_lines(pairs, 10, seed=1) != sample_lines(pairs, 10, seed=2)


def test_bad_utf8(tmp_path):
    (tmp_path / "latin1.txt").write_bytes("gut\nschön\n".encode("latin-1"))
    with refused("latin1.txt, line 2", "byte 0xf6 at position 4"):
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
