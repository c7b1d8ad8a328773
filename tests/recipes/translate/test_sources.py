"""Corpora of IWSLT's campaigns and of TensorFlow Datasets."""

import sys
import types

import pytest
import tensorflow as tf

from keras_headattn.data import read_text
from recipes.translate.corpora import load_corpora
from recipes.translate.iwslt import read_iwslt
from recipes.translate.settings import TranslateConfig, files_of_tests
from recipes.translate.tfds import read_tfds
from tests.data.test_parallel import write, xml
from tests.refusals import refused


@pytest.fixture
def campaign(tmp_path):
    for language, lines in {"de": ["Hallo .", "Zwei ."], "en": ["Hello .", "Two ."]}.items():
        tags = f"<url>http://x</url>\n<title>Title {language}</title>\n{lines[0]}\n<doc docid='1'>\n{lines[1]}\n"
        write(tmp_path / f"train.tags.de-en.{language}", tags + "<reviewer></reviewer>\n" * (language == "en"))
        for name in ("TED.tst2014", "TEDX.tst2014", "TEDX.dev2012"):
            segments = [(1, f"{name} &amp; {lines[0]}"), (2, lines[1])]
            write(tmp_path / f"IWSLT16.{name}.de-en.{language}.xml", xml(segments, language))
    return tmp_path


def test_iwslt_training_tags_lose_their_metadata(campaign):
    corpus = read_iwslt(campaign, "de", "en", "train")
    assert corpus.source == ["Hallo .", "Zwei ."]
    assert corpus.target == ["Hello .", "Two ."]


def test_iwslt_segments(campaign):
    corpus = read_iwslt(campaign, "de", "en", "tst2014")
    assert corpus.source == ["TED.tst2014 & Hallo .", "Zwei ."]
    assert corpus.target == ["TED.tst2014 & Hello .", "Two ."]
    assert read_iwslt(campaign, "de", "en", "TEDX.tst2014").source[0] == "TEDX.tst2014 & Hallo ."
    assert read_iwslt(campaign, "de", "en", "dev2012").source[0] == "TEDX.dev2012 & Hallo ."


def test_iwslt_training_text_may_begin_with_a_bracket(campaign):
    for language, line in {"de": "<3 dich &amp; mich", "en": "<3 you &amp; me"}.items():
        path = campaign / f"train.tags.de-en.{language}"
        write(path, path.read_text() + f"{line}\n")
    corpus = read_iwslt(campaign, "de", "en", "train")
    assert corpus.source[2:] == ["<3 dich & mich"] and corpus.target[2:] == ["<3 you & me"]


def test_iwslt_training_talks_must_match(campaign):
    for language, lines in {"de": "drei\n<url>u</url>\n", "en": "<url>u</url>\nthree\n"}.items():
        path = campaign / f"train.tags.de-en.{language}"
        write(path, path.read_text() + lines)
    with refused("ids", f"number 3, 1 in {campaign / 'train.tags.de-en.de'} and 2 in "):
        read_iwslt(campaign, "de", "en", "train")


def test_iwslt_sets_are_joined(campaign):
    assert len(read_iwslt(campaign, "de", "en", "tst2014+dev2012")) == 4


def test_iwslt_of_two_releases(campaign):
    other = campaign / "IWSLT14.TED.tst2014.de-en.de.xml"
    write(other, xml([(1, "a"), (2, "b")], "de"))
    assert read_iwslt(campaign, "de", "en", "tst2014").source[0] == "TED.tst2014 & Hallo ."  # that with both sides
    write(other.with_name(other.name.replace("de.xml", "en.xml")), xml([(1, "a"), (2, "b")], "en"))
    with refused("release", f"{other} and {campaign / 'IWSLT16'}"):
        read_iwslt(campaign, "de", "en", "tst2014")


def test_iwslt_folder_serves_the_opposite_direction(campaign):
    assert read_iwslt(str(campaign), "en", "de", "tst2014").target[0] == "TED.tst2014 & Hallo ."
    assert read_iwslt(campaign, "en", "de", "train").source == ["Hello .", "Two ."]


def test_iwslt_errors(campaign):
    with refused("IWSLT*.TED.tst2099.de-en.de.xml", campaign, FileNotFoundError):
        read_iwslt(campaign, "de", "en", "tst2099")
    broken = campaign / "IWSLT16.TED.tst2014.de-en.en.xml"
    write(broken, xml([(1, "a"), (3, "b")], "en"))
    with refused("ids", f"'3' in {broken}"):
        read_iwslt(campaign, "de", "en", "tst2014")
    write(broken, xml([(1, "a")], "en"))
    with refused("target", "2 source and 1 target"):
        read_iwslt(campaign, "de", "en", "tst2014")
    write(broken, '<mteval>\n<seg id="1"> a\n</doc>')
    with refused("en.xml, line 2", '<seg id="1">'):
        read_iwslt(campaign, "de", "en", "tst2014")


def test_files_of_pairs(tmp_path):
    """As of attention-is-all-you-need-keras, ManyThings (with attributions) and, with ids, Tatoeba."""
    pairs = str(write(tmp_path / "en2de.s2s.txt", "A dog .\tEin Hund .\nTwo .\tZwei .\n"))
    corpora = load_corpora(TranslateConfig(train=(pairs,), validation=(pairs,), test=(pairs,)))
    want = [("A dog .", "Ein Hund ."), ("Two .", "Zwei .")]
    assert list(corpora.train) == list(corpora.validation) == list(corpora.tests["en2de.s2s"]) == want
    attributed = str(write(tmp_path / "deu.tsv", "A dog .\tEin Hund .\tCC-BY 2.0 #1 (a) & #2 (b)\n"))
    tatoeba = str(write(tmp_path / "tatoeba.tsv", "1\tA dog .\t2\tEin Hund .\n"))
    corpora = load_corpora(TranslateConfig(train=(pairs,), validation=(attributed,), test=(attributed,)))
    assert list(corpora.validation) == list(corpora.tests["deu"]) == want[:1]
    whole = TranslateConfig(train=(tatoeba,), validation=(tatoeba,), test=(tatoeba,), columns=(4, 2))
    assert list(load_corpora(whole).tests["tatoeba"]) == [want[0][::-1]]


def sgm(texts, kind):
    segments = "".join(f'<seg id="{number}">{text}</seg>\n' for number, text in enumerate(texts, 1))
    return f'<{kind}set setid="newstest" srclang="any">\n<doc docid="a">\n<p>\n{segments}</p>\n</doc>\n</{kind}set>\n'


def test_sgml_of_wmt_as_it_comes(tmp_path):
    """Of `zh` to `en`, named after the set alone."""
    files = tmp_path / "newstest2017-zhen-src.zh.sgm", tmp_path / "newstest2017-zhen-ref.en.sgm"
    write(files[0], sgm(["\u4f60\u597d", "A&amp;B"], "src")), write(files[1], sgm(["hello", "A &amp; B"], "ref"))
    files = tuple(map(str, files))
    config = TranslateConfig(train=files, validation=files, test=files, source_language="zh", target_language="en")
    corpora = load_corpora(config)
    assert (
        list(corpora.validation) == list(corpora.tests["newstest2017"]) == [("\u4f60\u597d", "hello"), ("A&B", "A & B")]
    )
    assert list(files_of_tests(["my-src.en", "my-src.de"])) == ["my-src"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of sacreBLEU with newstest2013 and, for the other direction's files, newstest2014."""
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    for name, stem in {"wmt13": "test/newstest2013-src", "wmt14/full": "test-full/newstest2014-deen"}.items():
        (tmp_path / name / "raw" / stem).parent.mkdir(parents=True)
    write(tmp_path / "wmt13/raw/test/newstest2013-src.en.sgm", sgm(["a &quot;cat&quot;"], "src"))
    write(tmp_path / "wmt13/raw/test/newstest2013-src.de.sgm", sgm(["eine Katze"], "src"))
    write(tmp_path / "wmt14/full/raw/test-full/newstest2014-deen-src.en.sgm", sgm(["two"], "src"))
    write(tmp_path / "wmt14/full/raw/test-full/newstest2014-deen-ref.de.sgm", sgm(["zwei"], "ref"))
    return tmp_path


def test_sets_in_the_cache_of_sacrebleu(cache, fake_tfds):
    """In place of files, and of splits of other data."""
    train = tuple(str(write(cache / f"train.{language}", "x\n")) for language in ("en", "de"))
    sets = ("sacrebleu:wmt13", "sacrebleu:wmt14/full")
    found = {"newstest2013": [('a "cat"', "eine Katze")], "newstest2014": [("two", "zwei")]}
    for source in (
        dict(train=train, validation=sets[:1], test=(*sets, *train)),
        dict(tfds="wmt14_translate/de-en", splits=dict(train="train", validation=sets[0], test=sets)),
    ):
        corpora = load_corpora(TranslateConfig(**source))
        assert list(corpora.validation) == found["newstest2013"]
        assert {name: list(corpora.tests[name]) for name in found} == found
    with refused("sacrebleu --download wmt15 --language-pair en-de", "newstest2015", FileNotFoundError):
        load_corpora(TranslateConfig(train=train, validation=("sacrebleu:wmt15",)))
    with refused("wmt14/full", "wmt1"):
        load_corpora(TranslateConfig(train=train, validation=("sacrebleu:wmt1",)))


@pytest.fixture
def fake_tfds(monkeypatch):
    """Stands in for tensorflow_datasets: the two functions which are used, with a data set of two pairs."""
    pairs = {"en": ["a cat", "two "], "de": ["eine Katze", "zwei"]}

    def load(name, split, with_info):
        assert (name, split, with_info) == ("wmt14_translate/de-en", "train", True)
        return tf.data.Dataset.from_tensor_slices(pairs), types.SimpleNamespace(features=dict.fromkeys(pairs))

    module = types.SimpleNamespace(load=load, download=None, as_numpy=lambda dataset: dataset.as_numpy_iterator())
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)


def test_tfds(fake_tfds):
    corpus = read_tfds("wmt14_translate/de-en", "train", "en", "de")
    assert (corpus.source, corpus.target) == (["a cat", "two"], ["eine Katze", "zwei"])
    assert corpus.name == "wmt14_translate/de-en, train, en-de"
    assert read_tfds("wmt14_translate/de-en", "train", "en", "de", 1).target == ["eine Katze"]
    with refused("['de', 'en']", "'fr'"):
        read_tfds("wmt14_translate/de-en", "train", "en", "fr")


def test_tfds_that_cannot_be_had(fake_tfds, monkeypatch):
    def load(*arguments, **options):
        raise AssertionError("you must manually download czeng")

    monkeypatch.setattr(sys.modules["tensorflow_datasets"], "load", load)
    monkeypatch.setattr(sys.modules["tensorflow_datasets"], "download", types.SimpleNamespace(DownloadError=OSError))
    with pytest.raises(OSError, match="not on this machine.*Received: wmt14_translate/de-en.*czeng"):
        read_tfds("wmt14_translate/de-en", "train", "en", "de")


def test_streams_hold_what_lists_hold(fake_tfds, tmp_path):
    corpus = read_tfds("wmt14_translate/de-en", "train", "en", "de", stream=True)
    assert len(corpus) == 2 and list(corpus) == [("a cat", "eine Katze"), ("two", "zwei")] == list(corpus)
    files = write(tmp_path / "a.en", "a\nb\nc\n"), write(tmp_path / "a.de.gz", "x\ny\nz\n")
    stream = read_text(*files, stream=True)
    assert list(stream) == list(read_text(*files)) == list(stream) and stream.name == read_text(*files).name
    for stream in (True, False):
        assert list(read_text(*files, max_sentences=2, stream=stream)) == [("a", "x"), ("b", "y")]
    write(tmp_path / "a.en", "a\nb\n")
    with refused("target", "2 source and 3 target lines"):
        read_text(*files, stream=True)


def test_tfds_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match="pip install tensorflow-datasets"):
        read_tfds("wmt14_translate/de-en", "train", "en", "de")


def test_a_share_of_the_pairs_is_for_validation(tmp_path, capsys):
    lines = [f"a {number % 9}\tb {number % 9}\n" for number in range(40)]  # each pair four times or more
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    config = TranslateConfig(train=(str(tmp_path / "pairs.tsv"),), validation=("0.2",))
    corpora = load_corpora(config)
    assert len(corpora.validation) == 2 and not {*corpora.validation} & {*corpora.train}
    assert {*corpora.validation} | {*corpora.train} == {tuple(line.strip().split("\t")) for line in lines}
    assert load_corpora(config).validation.source == corpora.validation.source
    shown = f"A pair to train on, en -> de:\n  {corpora.train.source[0]}\n  {corpora.train.target[0]}\n"
    assert shown in capsys.readouterr().out
