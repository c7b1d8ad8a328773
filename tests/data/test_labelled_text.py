import gzip

import pytest

from keras_headattn.data import LabelledText, read_labelled
from tests.refusals import refused


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_tables(tmp_path):
    """Quotation marks count in csv alone, which may have line feeds in a field; columns by name or by number."""
    table = write(tmp_path / "a.csv", 'text,label,other\r\n"two\nlines, ""so""",good,1\r\n\r\nplain,bad,2\r\n')
    found = read_labelled([table], "text", "label")
    assert found.texts == ['two\nlines, "so"', "plain"] and found.labels == ["good", "bad"]
    assert found.second_texts is None and found.name == str(table)
    pairs = read_labelled([table], "text", "label", "other")
    assert pairs.second_texts == ["1", "2"]
    tabs = write(tmp_path / "a.tsv.gz", '\ufeffan "open quote\t1\n\t0\n')
    found = read_labelled([tabs, tabs], "1", "2", header=False)
    assert found.texts == ['an "open quote', ""] * 2 and found.labels == ["1", "0"] * 2
    lines = write(tmp_path / "a.jsonl", '{"t": " x ", "l": 3}\n\n{"t": "y", "l": "n", "u": null}\n')
    found = read_labelled([lines], "t", "l")
    assert (found.texts, found.labels) == (["x", "y"], ["3", "n"])


@pytest.mark.parametrize(
    "lines, options",
    [
        (["text;label", "so, so, la;1", '"a; b";0'], {}),
        (["label;text;;", "1;so, so, la;;", '0;"a; b";;'], {}),
        (["text\tlabel", "so, so, la\t1", "a; b\t0"], {}),
        (["sep=\t", "text\tlabel", "so, so, la\t1", "a; b\t0"], {}),
        (["sep=;", "text;label", "so, so, la;1", '"a; b";0'], {}),
        (["so, so, la;1", '"a; b";0'], dict(text="1", label="2", header=False)),
        (["text|label", "so, so, la|1", "a; b|0"], dict(delimiter="|")),
        (["text;x,label", '"so, so, la",1', '"a; b",0'], dict(delimiter=",", text="text;x")),
        ([" text ,label ", '"so, so, la",1', "a; b,0"], dict(text="text ", label=" label")),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_tables_of_spreadsheets(tmp_path, lines, options, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    found = read_labelled([path], **{"text": "text", "label": "label", "encoding": encoding} | options)
    assert [text.rstrip(";") for text in found.texts] == ["so, so, la", "a; b"] and found.labels == ["1", "0"]


def test_a_long_document(tmp_path):
    text = "word " * 40_000 + "end"
    found = read_labelled([write(tmp_path / "a.csv", f'text,label\n"{text}",x\n')], "text", "label")
    assert found.texts == [text]


def test_examples_without_a_label(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\nx,\ny,b\n")
    assert read_labelled([path], "text", "label", allow_unlabelled=True).labels == ["", "b"]


def test_labels_in_front_and_files_that_belong_together(tmp_path):
    found = read_labelled([write(tmp_path / "a.train", "4 a film\n1 no . \n")], "text", "label", format="label_text")
    assert (found.texts, found.labels) == (["a film", "no ."], ["4", "1"])
    with refused("a.train, line 2", "label=''"):
        read_labelled([write(tmp_path / "a.train", "4 a film\n no label\n")], "text", "label", format="label_text")
    names = [write(tmp_path / name, text) for name, text in [("s1", "a\nb\n"), ("s2", "c\nd\n"), ("l", "x\ny\n")]]
    found = read_labelled(names, "1", "3", "2", format="aligned")
    assert (found.texts, found.second_texts, found.labels) == (["a", "b"], ["c", "d"], ["x", "y"])


@pytest.mark.parametrize("name, text", [
    ("a.csv", 'text,label\n"x"y,a\n'),
    ("a.csv", 'text,label\nx,"a\n'),
    ("a.jsonl", '{"text": 1, "label": 2}\n{"text"\n'),
])  # fmt: skip
def test_damaged_lines(tmp_path, name, text):
    with pytest.raises(ValueError, match=f"{name}, line 2 "):
        read_labelled([write(tmp_path / name, text)], "text", "label")


def test_mistakes_of_aligned_files(tmp_path):
    one, two = write(tmp_path / "one", "a\nb\n"), write(tmp_path / "two", "x\n")
    with refused("number of them", f"2 in {one}, 1 in {two}"):
        read_labelled([one, two], "1", "2", format="aligned")
    with refused("numbers, 1, 2", "'text'"):
        read_labelled([one, two], "text", "2", format="aligned")
    with refused("two, line 2", "2=''"):
        read_labelled([one, write(two, "x\n\n")], "1", "2", format="aligned")
    (tmp_path / "a.tsv").write_bytes("text\tlabel\nsch\xf6n\ta\n".encode("latin-1"))
    with refused("a.tsv, line 2", "byte 0xf6 at position 4"):
        read_labelled([tmp_path / "a.tsv"], "text", "label")
    assert read_labelled([tmp_path / "a.tsv"], "text", "label", encoding="latin-1").texts == ["schön"]
    with refused("No such file", "none.csv", FileNotFoundError):
        read_labelled([tmp_path / "none.csv"], "text", "label")


def test_parts_have_nothing_in_common():
    whole = LabelledText([str(n) for n in range(100)], ["a", "b"] * 50, "demo", [str(-n) for n in range(100)])
    parts = whole.split([0.2, 0.1], seed=3)
    assert [len(part) for part in parts] == [70, 20, 10]
    assert sorted(text for part in parts for text in part.texts) == sorted(whole.texts)
    assert all(a == b.removeprefix("-") for a, b in zip(parts[1].texts, parts[1].second_texts, strict=True))
    assert parts[1].texts == whole.split([0.2, 0.1], seed=3)[1].texts != whole.split([0.2, 0.1], seed=4)[1].texts
    assert whole.sample(None) is whole and len(whole.sample(7)) == 7
    assert set(whole.without(["b"]).labels) == {"a"}


def test_copies_of_a_text_stay_together():
    whole = LabelledText([str(n % 20) for n in range(100)], [str(n) for n in range(100)], "demo")
    parts = whole.split([0.2, 0.1])
    assert [len(part) for part in parts] == [70, 20, 10]
    assert sum(len(set(part.texts)) for part in parts) == 20


def test_real_layouts(shared_data):
    folder = shared_data / "sentence_classification"
    found = read_labelled([folder / "stsa.fine.train"], "text", "label", format="label_text")
    assert len(found) == 8_544 and set(found.labels) == set("01234")
    found = read_labelled([shared_data / "sst2_sick" / "sentiment-dev"], "1", "2", format="tsv", header=False)
    assert len(found) == 872 and set(found.labels) == {"0", "1"}
    found = read_labelled([shared_data / "sst2_sick" / "sickdev-ent"], "1", "3", "2", format="tsv", header=False)
    assert len(found) == 500 and set(found.labels) == {"NEUTRAL", "ENTAILMENT", "CONTRADICTION"}
    found = read_labelled([shared_data / "yelp_stars" / "dev.csv"], "text", "label2")
    assert len(found) == 5_000 and len(set(found.labels)) == 5
    found = read_labelled([shared_data / "hate_offensive" / "labeled_data.csv"], "tweet", "class")
    assert len(found) == 24_783 and found.labels.count("0") == 1_430
    names = [shared_data / "esnli" / "eSNLI" / f"{name}.dev" for name in ("s1", "s2", "labels")]
    found = read_labelled(names, "1", "3", "2", format="aligned")
    assert len(found) == 9_842 and len(set(found.labels)) == 3
