"""Offsets of pieces: into the text as it is given, whatever normalization makes of it."""

import unicodedata

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_headattn.text import BytePairTokenizer, SentencePiecePairTokenizer, WordPieceTokenizer, train_sentencepiece
from tests.refusals import refused
from tests.text.test_tokenizers import model_path  # noqa: F401

WORDS = ["Zoë", "İzmir", "ΣΊΣΥΦΟΣ", "naïve", "ﬁne", "cat", "Ǆ", "²", "한국", "x" * 120, "Ａｂ", "don", "🙂👍🏽"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = sorted(set("zoeizmirsuφοσιυnaveficatdgxbkǆ한국²") | set(unicodedata.normalize("NFD", "한국")))
WORDPIECES = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "zoe", "cat", "na", "##ive"]
BYTES = ["<s>", "<pad>", "</s>", "<unk>", *"abcdeotxZ ,".replace(" ", "Ġ"), "at", "cat", "Ġcat", "Ã", "«", "Ã«"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    path = train_sentencepiece(WORDS[:-1] * 3, tmp_path_factory.mktemp("pieces") / "a.model", 60)
    pieces = dict(merges=["a t", "c at", "Ġ cat", "Ã «"])
    return {
        "uncased": WordPieceTokenizer(WORDPIECES),
        "cased": WordPieceTokenizer([*WORDPIECES, "Zoë"], lowercase=False),
        "accents": WordPieceTokenizer(WORDPIECES, strip_accents=False),
        "added": WordPieceTokenizer(
            WORDPIECES, added_tokens=[{"content": "[E]", "lstrip": True, "rstrip": True}, "cat"]
        ),
        "bytes": BytePairTokenizer(BYTES, **pieces),
        "prefix": BytePairTokenizer(BYTES, **pieces, add_prefix_space=True),
        "added_bytes": BytePairTokenizer(BYTES, **pieces, added_tokens=["[E]", {"content": "at", "normalized": True}]),
        "pieces": SentencePiecePairTokenizer(path),
    }


KINDS = ("uncased", "cased", "accents", "added", "bytes", "prefix", "added_bytes", "pieces")
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.lists(
    st.sampled_from([*WORDS, " ", "\u3000", "\u0301", ",", "[E]", "\0", "e\u0301", "猫"]), max_size=8
).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(any_text, min_size=1, max_size=4))
@example(texts=["", "Zoe\u0308 and  ΣΊΣΥΦΟΣ!", "x" * 120 + " cat", " [E] cat[E]", "\u0301\u0301", "🙂猫"])
@settings(max_examples=20, deadline=None)
def test_ids_and_places_of_any_text(kind, texts, tokenizers):
    tokenizer = tokenizers[kind]
    ids, starts, ends = (side.to_list() for side in tokenizer.tokenize_with_offsets(texts))
    assert ids == [row[1:-1].tolist() for row in tokenizer.encode(texts)]
    for text, *row in zip(texts, starts, ends, strict=True):
        begin, end = row
        assert begin == sorted(begin) and end == sorted(end)
        assert all(0 <= first <= last <= len(text) for first, last in zip(begin, end, strict=True))
        assert not any(text[first:last].startswith((" ", "\u3000")) for first, last in zip(begin, end, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@given(
    words=st.lists(st.sampled_from([*WORDS, "Zoe\u0308", "cat"]), min_size=1, max_size=6),
    space=st.sampled_from(" \u3000"),
)
@settings(max_examples=15, deadline=None)
def test_pieces_of_words_cover_them(kind, words, space, tokenizers):
    """Pieces fill each word, from its first character to its last, and nothing else."""
    text = space.join(words)
    _, starts, ends = (side.to_list()[0] for side in tokenizers[kind].tokenize_with_offsets([text]))
    covered = {place for first, last in zip(starts, ends, strict=True) for place in range(first, last)}
    assert covered == {place for place, letter in enumerate(text) if not letter.isspace()}
    place = 0
    for word in words:  # no piece has parts of two words
        assert all(not (first < place < last) for first, last in zip(starts, ends, strict=True))
        place += len(word) + 1


def test_whole_words(tokenizers):
    text = "A  Zoe\u0308, cat"
    for kind, token in (("uncased", "zoe"), ("uncased", "cat"), ("bytes", "Ġcat"), ("prefix", "Ġcat")):
        ids, starts, ends = (side.to_list()[0] for side in tokenizers[kind].tokenize_with_offsets([text]))
        place = ids.index(tokenizers[kind].vocabulary.index(token))
        assert text[starts[place] : ends[place]] == {"zoe": "Zoe\u0308"}.get(token, "cat")


def test_in_a_graph(tokenizers):
    for tokenizer in tokenizers.values():
        found = tf.function(tokenizer.tokenize_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
        for ours, eager in zip(found(tf.constant(WORDS)), tokenizer.tokenize_with_offsets(WORDS), strict=True):
            assert ours.dtype == tf.int32 and ours.to_list() == eager.to_list()
        assert [side.shape[0] for side in found(tf.constant([], tf.string))] == [0, 0, 0]


def test_tokens_of_normalized_text_have_no_places():
    tokenizer = WordPieceTokenizer(WORDPIECES, added_tokens=[{"content": "ZOE", "normalized": True}])
    with refused("added_tokens"):
        tokenizer.tokenize_with_offsets(["Zoe"])
