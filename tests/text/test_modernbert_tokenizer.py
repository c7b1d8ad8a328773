import pytest

from keras_headattn.text import ModernBertTokenizer
from tests.text.test_byte_pair_tokenizer import SIGNS

VOCABULARY = [*SIGNS.values(), "at", "Ġc", "Ġcat", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]


@pytest.fixture(scope="module")
def tokenizer():
    return ModernBertTokenizer(VOCABULARY, ["a t", "Ġ c", "Ġc at"])


@pytest.mark.parametrize("text, parts", [
    ("a cat", ["a", "cat"]),
    ("e\u0301 cat", ["e\u0301"] * 2 + ["cat"]),
    ("a\u030a\u0327cat", ["a\u030a\u0327"] * 4 + ["c", "at"]),
    ("\u1100\u1161\u11a8 cat", ["\u1100\u1161\u11a8"] * 3 + ["cat"]),
    ("\u0301x cat", ["\u0301"] * 2 + ["x", "cat"]),
    ("\u212b cat", ["\u212b"] * 2 + ["cat"]),
    ("=\u0338 cat", ["=\u0338"] * 3 + ["cat"]),
    ("", []),
])  # fmt: skip
def test_offsets_are_those_of_the_text_as_it_is_given(tokenizer, text, parts):
    """Bytes of a character that several characters are composed to have all of them."""
    ids, starts, ends = (side.to_list() for side in tokenizer.tokenize_with_offsets(["a  cat", text, "at"]))
    assert ids[1] == tokenizer.encode([text])[0].tolist()[1:-1]
    assert [text[start:end] for start, end in zip(starts[1], ends[1], strict=True)] == parts
