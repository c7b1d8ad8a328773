"""What a SavedModel needs in a fresh process."""

import pytest

from keras_headattn.text import BytePairTokenizer, ByteTokenizer, ModernBertTokenizer, WordPieceTokenizer
from recipes.engine.exporting import packages_of

WORD_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]


@pytest.mark.parametrize(
    ("tokenizer", "packages"),
    [
        (lambda: BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", "a"], []), []),
        (lambda: BytePairTokenizer(["a"], [], specials=None, pre_tokenizer="qwen2"), ["tensorflow_text"]),
        (ByteTokenizer, []),
        (lambda: ModernBertTokenizer(WORD_PIECES, []), ["tensorflow_text"]),  # it is a byte-pair tokenizer, too
        (lambda: WordPieceTokenizer(WORD_PIECES), ["tensorflow_text"]),
    ],
)
def test_packages_of_tokenizers(tokenizer, packages):
    assert packages_of(tokenizer()) == packages
