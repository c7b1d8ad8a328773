import gzip

import pytest

from keras_headattn._sentences import read_sentences
from keras_headattn.data import read_pairs, read_text
from tests.refusals import refused


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_plain_and_gzipped_text(tmp_path):
    source = write(tmp_path / "a.en", "\ufeff a cat \r\n\ntwo\u2028lines \x0bone\x85\n")
    target = write(tmp_path / "a.de.gz", "eine Katze\n\nzwei")
    corpus = read_text(source, target)
    assert corpus.source == ["a cat", "", "two\u2028lines \x0bone"]
    assert corpus.target == ["eine Katze", "", "zwei"]
    assert corpus.name == f"{source} and {target}"


def test_unequal_counts_name_both_files(tmp_path):
    source, target = write(tmp_path / "a.en", "a\nb\n"), write(tmp_path / "a.de", "c\n")
    with refused("target", f"2 source and 1 target lines in {source} and {target}"):
        read_text(source, target)


def test_bad_utf8_names_file_and_line(tmp_path):
    source = write(tmp_path / "a.en", "a\nb\n")
    target = write(tmp_path / "a.de", "gut\nsch\xf6n\n".encode("latin-1"))
    with refused("a.de, line 2", "byte 0xf6 at position 4"):
        read_text(source, target)


def test_missing_and_damaged_files(tmp_path):
    with refused("No such file", "none.en", FileNotFoundError):
        read_text(tmp_path / "none.en", tmp_path / "none.de")
    whole = gzip.compress(b"some text\n" * 100)
    for data in (whole[:-12], b"no gzip at all", whole[:12] + b"\xff" * 9 + whole[21:]):
        (tmp_path / "a.en.gz").write_bytes(data)
        with pytest.raises(ValueError, match="gzip file is damaged.*Received: .*a.en.gz"):
            read_text(tmp_path / "a.en.gz", tmp_path / "a.en.gz")


def xml(segments, language):
    body = "\n".join(f'<seg id="{number}"> {text} </seg>' for number, text in segments)
    return f'<?xml version="1.0"?>\n<mteval>\n<refset trglang="{language}">\n{body}\n</refset>\n</mteval>'


SGM = """<srcset setid="newstest" srclang="any">
<doc sysid="ref" docid="a" genre="news" origlang="en">
<hl>
<seg id="1">R&D at AT&T &amp; others\xa0!</seg>
</hl>
<p>
<SEG id="2" type="x">
two
lines </SEG><seg id="3"/>
</doc>
<doc docid="b"><seg id=1>&lt;b&gt; &#228;</seg></doc>
</srcset>"""


@pytest.mark.parametrize("name", ["a.sgm", "a.SGML.gz", "a.xml", "a.de"])
def test_sentences_of_xml_and_sgml(tmp_path, name):
    """By the name of the file or by its beginning; ampersands may be no entities."""
    path = write(tmp_path / name, SGM)
    assert list(read_sentences(path)) == ["R&D at AT&T & others\xa0!", "two lines", "", "<b> ä"]
    write(tmp_path / "b.sgm", SGM)
    assert read_text(path, tmp_path / "b.sgm", max_sentences=2).target == ["R&D at AT&T & others\xa0!", "two lines"]
    write(tmp_path / "lines.en", "one\ntwo\n\n<doc> is a tag\n")
    assert read_text(path, tmp_path / "lines.en").target[3] == "<doc> is a tag"


def test_tagged_training_text_outside_its_folder(tmp_path):
    path = write(tmp_path / "train.de", "<url>http://x</url>\n<title>T</title>\neins &amp; zwei\n<3\n")
    assert read_text(path, path).source == ["eins & zwei", "<3"]


@pytest.mark.parametrize("text, place, received", [
    ("<mteval></mteval>", "<seg>", "a.xml"),
    ("<?xml?>\n<seg>a\n<seg>b</seg>", "a.xml, line 2", "<seg>"),
    ("<?xml?>\n</seg>", "a.xml, line 2", "</seg>"),
    ("<?xml?>\n<seg>a", "a.xml, line 2", "<seg>"),
    (SGM.replace('id="2"', 'id="7"'), "ids", "number 2, '7' in {0}/a.xml and '2' in {0}/b.xml"),
    (SGM.replace('<seg id="3"/>', ""), "ids", "number 3, '1' in {0}/a.xml and '3' in {0}/b.xml"),
])  # fmt: skip
def test_mistakes_in_xml(tmp_path, text, place, received):
    with refused(place, received.format(tmp_path)):
        read_text(write(tmp_path / "a.xml", text), write(tmp_path / "b.xml", SGM))


def test_both_languages_in_one_file(tmp_path):
    path = write(tmp_path / "a.xml", '<?xml?>\n<src lang="en"><seg>a</seg></src><ref lang="de">')
    with pytest.raises(ValueError, match="a.xml, line 2.*Received: <src"):
        read_text(path, path)


def test_entities_that_xml_defines_stay_as_they_are(tmp_path):
    """A bomb of entities within entities is text like any other, as is a file of the machine."""
    bomb = '<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">' + '<!ENTITY c SYSTEM "file:///etc/passwd">'
    path = write(tmp_path / "a.xml", f"<?xml version='1.0'?><!DOCTYPE x [{bomb}]>\n<seg>&b;&c;</seg>")
    assert list(read_sentences(path)) == ["&b;&c;"]
    with pytest.raises(ValueError, match="every <seg> must end"):
        list(read_sentences(write(tmp_path / "b.xml", "<seg>" * 1_000_000)))


def test_a_file_of_pairs(tmp_path):
    """As of ManyThings and Anki; exports of Tatoeba have numbers besides."""
    path = write(tmp_path / "deu.txt.gz", 'Go.\tGeh.\tCC-BY\r\n\n"Hi\t Hallo "! \n')
    for stream in (False, True):
        corpus = read_pairs(path, stream=stream)
        assert list(corpus) == [("Go.", "Geh."), ('"Hi', 'Hallo "!')] == list(corpus) and corpus.name == str(path)
    assert list(read_pairs(path, (2, 1), max_sentences=1)) == [("Geh.", "Go.")]
    with refused("deu.txt.gz, line 3 must have 3 columns"):
        read_pairs(path, (1, 3))
    path = write(tmp_path / "tatoeba.tsv", "12\tGo.\t77\tGeh.\n13\tHi.\t78\tHallo.\n")
    assert read_pairs(path, (2, 4)).target == ["Geh.", "Hallo."]
    with refused("columns", (1, 2)):
        read_pairs(path)


@pytest.mark.parametrize("split, size", [("train", 29_000), ("val", 1_014), ("test_2016_flickr", 1_000)])
def test_multi30k(shared_data, split, size):
    folder = shared_data / "multi30k" / "raw"
    for language in ("de", "cs", "fr"):
        corpus = read_text(folder / f"{split}.en.gz", folder / f"{split}.{language}.gz")
        assert len(corpus) == size and all(corpus.source) and all(corpus.target)


def test_iwslt14_prepared_files(shared_data):
    folder = shared_data / "iwslt14_de_en" / "tmp"
    assert len(read_text(folder / "valid.de", folder / "valid.en")) == 7_283
    assert len(read_text(folder / "test.de", folder / "test.en")) == 6_750


def test_newstest(shared_data):
    folder = shared_data / "wmt_newstest" / "2014" / "en-de"
    assert len(read_text(folder / "newstest2014.en", folder / "newstest2014.de")) == 3_003
