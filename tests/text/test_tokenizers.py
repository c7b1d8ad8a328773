"""What is true of all tokenizers."""

import json
import zipfile

import keras
import pytest
import tensorflow as tf

from keras_headattn import text
from keras_headattn.text import (
    ByteFallbackTokenizer,
    BytePairTokenizer,
    ByteTokenizer,
    CharacterTokenizer,
    ModernBertTokenizer,
    SentencePiecePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
    train_sentencepiece,
)
from tests.refusals import refused
from tests.text.test_byte_fallback_tokenizer import trained

PLACES = {
    ByteFallbackTokenizer: ("proto",),
    BytePairTokenizer: ("vocabulary", "merges"),
    ByteTokenizer: (),
    CharacterTokenizer: ("vocabulary",),
    ModernBertTokenizer: ("vocabulary", "merges"),
    SentencePiecePairTokenizer: ("proto",),
    SentencePieceTokenizer: ("proto",),
    WordPieceTokenizer: ("vocabulary",),
    WordTokenizer: ("vocabulary",),
}


def test_all_tokenizers_are_here():
    layers = {cls for cls in (getattr(text, name) for name in text.__all__) if isinstance(cls, type)}
    assert {cls for cls in layers if issubclass(cls, keras.layers.Layer)} == set(PLACES)


ODD = [
    "",
    "\0",
    "a\0b",
    "\0\0a",
    b"\xff",
    b"a\xffb",
    b"\xe2\x82",
    b"\xed\xa0\x80a",
    "\ufffd",
    "\ufdd0",
    b"ab\xc0\x80",
    "a[E]\0[E]b",
]


PLAIN = WordTokenizer, ByteTokenizer, CharacterTokenizer


@pytest.mark.parametrize("cls, added", [(cls, a) for cls in PLACES for a in ([], ["[E]"]) if not a or cls not in PLAIN])
def test_odd_texts(cls, added, model_path):
    tokenizer = cls(**content(cls, model_path), **({"added_tokens": added} if added else {}))
    for row, ids in zip(tokenizer(ODD).numpy(), tokenizer.encode(ODD), strict=True):
        assert row[: len(ids)].tolist() == ids.tolist() and (row[len(ids) :] == tokenizer.pad_id).all()
    assert tokenizer.encode([]) == [] and tokenizer(tf.zeros([0, 1], tf.string)).shape[0] == 0
    for wrong in ("ab", [["a", "b"]], [5], [None], ["a", ["a"]]):
        with refused("Texts"):
            tokenizer.encode(wrong)
    if cls is not WordTokenizer:
        ids = [int(i) for i in tokenizer.encode(["a"])[0]]
        texts = tokenizer.detokenize([[*ids[:-1], 999, -1, *ids[-1:]], [*ids, 999, -1]])
        assert texts.numpy().tolist() == [b"a", b"a"]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    return train_sentencepiece(["a cat sat", "a dog ran"], tmp_path_factory.mktemp("pieces") / "a.model", 20)


def content(cls, model_path):
    """Arguments of a tokenizer, without paths."""
    specials, of_bert = ["<s>", "<pad>", "</s>", "<unk>"], ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    return {
        ByteFallbackTokenizer: lambda: dict(proto=trained(add_dummy_prefix=False), specials={}),
        BytePairTokenizer: lambda: dict(vocabulary=[*specials, "a", "b", "ab"], merges=["a b"]),
        ModernBertTokenizer: lambda: dict(vocabulary=[*of_bert, "a", "b", "ab"], merges=["a b"]),
        SentencePiecePairTokenizer: lambda: dict(proto=model_path.read_bytes()),
        SentencePieceTokenizer: lambda: dict(proto=model_path.read_bytes()),
        WordPieceTokenizer: lambda: dict(vocabulary=[*of_bert, "a"]),
        WordTokenizer: lambda: dict(vocabulary=["a"]),
        ByteTokenizer: dict,
        CharacterTokenizer: lambda: dict(vocabulary=[*"ab\0\ufffd\ufdd0[E]"]),
    }[cls]()


@pytest.mark.parametrize("cls", PLACES)
def test_a_path_in_a_keras_file(cls, model_path, tmp_path):
    strings = keras.Input((), dtype="string")
    keras.Model(strings, cls(**content(cls, model_path))(strings)).save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").layers[-1].get_config()
    (tmp_path / "secret").write_text("root")
    for name in PLACES[cls]:
        with zipfile.ZipFile(tmp_path / "model.keras") as archive:
            parts = {part: archive.read(part) for part in archive.namelist()}
        config = json.loads(parts["config.json"])
        layer = next(layer for layer in config["config"]["layers"] if layer["class_name"] == cls.__name__)
        layer["config"][name] = str(tmp_path / "secret")
        with zipfile.ZipFile(tmp_path / "bad.keras", "w") as archive:
            for part, data in parts.items():
                archive.writestr(part, json.dumps(config) if part == "config.json" else data)
        with refused(name, tmp_path / "secret", (ValueError, TypeError)):
            keras.saving.load_model(tmp_path / "bad.keras")
