"""CoNLL files and entities, against an oracle that tries every span."""

import gzip
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.tag.conll import TaggedText, entities_of, marks_entities, read_conll, tag_names, tag_scores, to_iob2
from tests.refusals import refused

KINDS = ("PER", "LOC")


def spans_by_definition(tags):
    """Entities of IOB1 and IOB2: longest spans whose words go on with what is before them."""

    def goes_on(place):
        kind = tags[place][2:]
        return tags[place][0] == "I" and place > 0 and tags[place - 1][0] in "BI" and tags[place - 1][2:] == kind

    found = set()
    for first, end in itertools.combinations(range(len(tags) + 1), 2):
        inside = all(tag != "O" for tag in tags[first:end])
        whole = all(map(goes_on, range(first + 1, end))) and not goes_on(first)
        if inside and whole and (end == len(tags) or not goes_on(end)):
            found.add((tags[first][2:], first, end))
    return found


iob = st.lists(st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in KINDS)]), max_size=7)


@given(iob)
@settings(deadline=None)
def test_entities(tags):
    found = entities_of(tags)
    assert set(found) == spans_by_definition(tags) and len(found) == len(set(found))
    assert entities_of(to_iob2(tags)) == found


@given(st.lists(st.tuples(st.sampled_from(("", *KINDS)), st.integers(1, 3)), max_size=5))
@settings(deadline=None)
def test_schemes_say_the_same(parts):
    written = {scheme: [] for scheme in ("IOB2", "IOBES", "BILOU")}
    expected, place = [], 0
    for kind, size in parts:
        if kind:
            expected.append((kind, place, place + size))
        for index in range(size):
            prefix = "B" if not index else "I"
            is_last = index == size - 1
            written["IOB2"].append(f"{prefix}-{kind}" if kind else "O")
            written["IOBES"].append(f"{('S' if not index else 'E') if is_last else prefix}-{kind}" if kind else "O")
            written["BILOU"].append(f"{('U' if not index else 'L') if is_last else prefix}-{kind}" if kind else "O")
        place += size
    assert all(entities_of(tags) == expected for tags in written.values())


@given(st.lists(st.tuples(iob, st.randoms()), min_size=1, max_size=4))
@settings(deadline=None)
def test_scores(rows):
    tags = [row for row, _ in rows]
    guesses = [[random.choice([tag, "O", "B-PER"]) for tag in row] for row, random in rows]
    true = {(number, *span) for number, row in enumerate(tags) for span in spans_by_definition(row)}
    found = {(number, *span) for number, row in enumerate(guesses) for span in spans_by_definition(row)}
    scores = tag_scores(tags, guesses)
    precision = len(true & found) / len(found) if found else 0
    recall = len(true & found) / len(true) if true else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    assert [scores[name] for name in ("precision", "recall", "f1")] == pytest.approx([precision, recall, f1])
    words = [pair for pair in zip(sum(tags, []), sum(guesses, []), strict=True)]
    assert scores["accuracy"] == pytest.approx(sum(a == b for a, b in words) / len(words) if words else 0)


FILE = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC


Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def test_conll_files(tmp_path):
    (tmp_path / "a.conll").write_text(FILE)
    (tmp_path / "b.conll.gz").write_bytes(gzip.compress(FILE.replace("\n", "\r\n").encode()))
    found = read_conll([tmp_path / "a.conll", tmp_path / "b.conll.gz"])
    assert found.words == [["EU", "rejects", "German"], ["Peter", "Blackburn"]] * 2
    assert found.tags == [["B-ORG", "O", "B-MISC"], ["B-PER", "I-PER"]] * 2
    assert tag_names(found.tags) == ["O", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER"]
    speech = read_conll([tmp_path / "a.conll"], tag_column=2)
    assert speech.tags[0] == ["NNP", "VBZ", "JJ"] and tag_names(speech.tags) == ["JJ", "NNP", "VBZ"]
    assert not marks_entities(["NNP"]) and tag_scores([["NNP"]], [["JJ"]]) == {"accuracy": 0.0}
    (tmp_path / "ud.conllu").write_text("# text = a b\n1\ta c\t_\tX\n2\tb\t_\tY\n\n")
    found = read_conll([tmp_path / "ud.conllu"], word_column=2, delimiter="\t")
    assert found.words == [["a c", "b"]] and found.tags == [["X", "Y"]]
    sides = TaggedText([["a"], ["b"], ["c"]] * 3, [["O"]] * 9, "x").split([0.3])
    assert len(sides[1]) == 3 and sides[1].words[0] not in sides[0].words


UNIVERSAL = """# newpar
# text = participants'
1-2\tparticipants'\t_\t_\t_
1\tparticipants\tparticipant\tNOUN\tNNS
2\t'\t's\tPART\tPOS
2.1\twent\tgo\tVERB\tVBD
"""
GERMEVAL = "#\thttp://example.org/a [2009-10-17]\n1\tAnn\tB-PER\tO\n2\t#\tO\tO\n"


@pytest.mark.parametrize(
    "text, columns, words, tags",
    [
        (UNIVERSAL, (2, 4), ["participants", "'"], ["NOUN", "PART"]),
        (GERMEVAL, (2, 3), ["Ann", "#"], ["B-PER", "O"]),
        ("# text = a\n# O\n#tag O\n# = O\n", (1, None), ["#", "#tag", "#"], ["O", "O", "O"]),
        ("# = O\n", (1, None), ["#"], ["O"]),
        ("-DOCSTART-foo O\n", (1, None), ["-DOCSTART-foo"], ["O"]),
        ("10\u00a0000\tCD\tB-NUM\nEuro\tNN\tO\n", (1, 3), ["10\u00a0000", "Euro"], ["B-NUM", "O"]),
        (" Ann  NN \tB-PER \r\n\u00a0 NN O\n", (1, None), ["Ann", "\u00a0"], ["B-PER", "O"]),
        ("I O\nB NN\nI NN\n", (1, None), ["I", "B", "I"], ["O", "NN", "NN"]),
    ],
)
def test_what_is_a_word(text, columns, words, tags, tmp_path):
    (tmp_path / "a.conll").write_text(text, encoding="utf-8")
    found = read_conll([tmp_path / "a.conll"], *columns)
    assert (found.words, found.tags) == ([words], [tags])


@pytest.mark.parametrize(
    "text, told",
    [
        ("Ann B-PER\nran 0\n\nBob I-PER\nLee I-PER\n", "line 2 .*'0'"),
        ("a O\nb\n", "line 2 must have a word"),
        ("\n-DOCSTART- O\n", "no sentences"),
        ("\xff O\n", "a.conll"),
    ],
)
def test_mistakes(text, told, tmp_path):
    (tmp_path / "a.conll").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=told):
        read_conll([tmp_path / "a.conll"])
    with refused("predicted", "1 for 2 tags"):
        tag_scores([["O", "O"]], [["O"]])
    with refused("", "'NNP'"):
        entities_of(["O", "NNP"])
