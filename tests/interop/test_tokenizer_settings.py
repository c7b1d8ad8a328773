"""Settings of tokenizers beside their vocabularies: honoured, harmless or refused by name."""

import json

import numpy as np
import pytest
import sentencepiece

from keras_headattn.interop import tokenizer_of
from keras_headattn.text import SentencePiecePairTokenizer, train_sentencepiece
from tests.refusals import refused

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "É", "e"]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SENTENCES = ["the cat sat on the mat", "ein schöner Hund schläft", "a dog ran after the cat"]


def write(folder, kind, size=60, **files):
    """A folder with config.json, a vocabulary, and files of JSON by their stems."""
    folder.mkdir(parents=True, exist_ok=True)
    files["config"] = {"model_type": kind, "vocab_size": size, **files.get("config", {})}
    if kind in ("bert", "electra"):
        (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    elif kind == "roberta":
        files["vocab"] = {token: index for index, token in enumerate([*SPECIALS, "a", "b", "ab"])}
        (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """Models as T5 and as fairseq train them: bytes by the name of their files."""
    folder = tmp_path_factory.mktemp("pieces")
    fairseq = folder / "fairseq"
    train_sentencepiece(SENTENCES, folder / "spiece.model", 30, "unigram")
    (folder / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    options = dict(vocab_size=30, hard_vocab_limit=False, minloglevel=2, unk_id=0, bos_id=1, eos_id=2)
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "text"), model_prefix=str(fairseq), **options)
    return {path.name: path.read_bytes() for path in (folder / "spiece.model", folder / "fairseq.model")}


# Settings


@pytest.mark.parametrize("kind, settings, name, received", [
    ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class", "'BertJapaneseTokenizer'"),
    ("bert", {"tokenizer_class": ["BertTokenizer"]}, "tokenizer_class", ["BertTokenizer"]),
    ("roberta", {"tokenizer_class": "PhobertTokenizer"}, "tokenizer_class", "'PhobertTokenizer'"),
    ("bert", {"word_tokenizer_type": "mecab"}, "word_tokenizer_type", "'mecab'"),
    ("bert", {"subword_tokenizer_type": "character"}, "subword_tokenizer_type", "'character'"),
    ("bert", {"tokenize_chinese_chars": False}, "tokenize_chinese_chars", False),
    ("bert", {"do_basic_tokenize": False}, "do_basic_tokenize", False),
    ("bert", {"never_split": ["a"]}, "never_split", ["a"]),
    ("bert", {"do_lower_case": "no"}, "do_lower_case", "'no'"),
    ("bert", {"cls_token": "<s>"}, "cls_token", "'<s>'"),
    ("bert", {"sep_token": {"content": "</s>"}}, "sep_token", "'</s>'"),
    ("bert", {"bos_token": "<s>"}, "bos_token", "'<s>'"),
    ("bert", {"padding_side": "left"}, "padding_side", "'left'"),
    ("bert", {"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "auto_map", {"AutoTokenizer": ["x.Y", None]}),
    ("bert", {"added_tokens_decoder": {"10": {"content": "[E]"}}, "split_special_tokens": True},
     "split_special_tokens", "True and '[E]'"),
    ("bert", {"added_tokens_decoder": {"x": {"content": "[E]"}}}, "id", "'[E]' of id 'x'"),
    ("bert", {"added_tokens_decoder": {"10": 5}}, "added_tokens_decoder", [5]),
    ("bert", {"additional_special_tokens": "[E]"}, "additional_special_tokens", "'[E]'"),
    ("roberta", {"add_prefix_space": 1}, "add_prefix_space", 1),
    ("roberta", {"do_lower_case": True}, "do_lower_case", True),
    ("roberta", {"extra_ids": 5}, "extra_ids", 5),
])  # fmt: skip
def test_refused_settings(kind, settings, name, received, tmp_path):
    assert tokenizer_of(write(tmp_path / "good", kind)).vocabulary_size
    folder = write(tmp_path / "bad", kind, tokenizer_config=settings)
    with refused(name, f"{received} in {folder}") as error:
        tokenizer_of(folder)
    assert "\n" not in str(error.value)


def test_the_class_of_config_json(tmp_path):
    write(tmp_path, "bert", config={"tokenizer_class": "BertJapaneseTokenizer"})
    with refused("tokenizer_class", f"'BertJapaneseTokenizer' in {tmp_path / 'config.json'}"):
        tokenizer_of(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert tokenizer_of(tmp_path).vocabulary_size == len(WORDS)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
@pytest.mark.parametrize("name", ["tokenizer_config", "special_tokens_map", "added_tokens"])
def test_damaged_settings(name, text, tmp_path):
    write(tmp_path, "bert")
    (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(ValueError, match=f"{name}.json"):
        tokenizer_of(tmp_path)


def test_special_tokens_of_other_names(tmp_path):
    with refused("pad_token", f"'<pad>' in {tmp_path / 'special_tokens_map.json'}"):
        tokenizer_of(write(tmp_path, "bert", special_tokens_map={"pad_token": "<pad>"}))


def test_harmless_settings(tmp_path):
    settings = dict(
        tokenizer_class="BertTokenizerFast", model_max_length=512, name_or_path="x", never_split=None,
        do_lower_case=False, clean_up_tokenization_spaces=True, cls_token={"__type": "AddedToken", "content": "[CLS]"},
        sp_model_kwargs={}, padding_side="right", bos_token=None, legacy=False, extra_special_tokens={},
        tokenize_chinese_chars=True,
    )  # fmt: skip
    tokenizer = tokenizer_of(write(tmp_path, "bert", tokenizer_config=settings))
    assert not tokenizer.lowercase and tokenizer.encode(["ab É"])[0].tolist() == [2, 5, 7, 8, 3]


@pytest.mark.parametrize("lowercase, strip_accents, ids", [
    (True, None, [9]), (True, False, [1]), (False, None, [8]), (False, True, [1]),
])  # fmt: skip
def test_accents(lowercase, strip_accents, ids, tmp_path):
    settings = {"do_lower_case": lowercase, "strip_accents": strip_accents}
    tokenizer = tokenizer_of(write(tmp_path, "electra", tokenizer_config=settings))
    assert tokenizer.encode(["É"])[0].tolist() == [2, *ids, 3]


def test_add_prefix_space(tmp_path):
    assert tokenizer_of(write(tmp_path, "roberta", tokenizer_config={"add_prefix_space": True})).add_prefix_space


# Tokens that were added


@pytest.mark.parametrize("files", [
    {"added_tokens": {"[E1]": 10}},
    {"tokenizer_config": {"added_tokens_decoder": {"0": {"content": "[PAD]"}, "10": {"content": "[E1]"}}}},
    {"tokenizer_config": {"additional_special_tokens": ["[E1]", "[CLS]"]}},
    {"special_tokens_map": {"additional_special_tokens": [{"content": "[E1]", "lstrip": False}]}},
    {"tokenizer_config": {"extra_special_tokens": {"entity": "[E1]"}}, "added_tokens": {"[E1]": 10}},
])  # fmt: skip
def test_added_tokens(files, tmp_path):
    tokenizer = tokenizer_of(write(tmp_path, "bert", **files))
    assert tokenizer.encode(["a [E1] b", "[CLS]"])[0].tolist() == [2, 5, 10, 6, 3]
    assert tokenizer.vocabulary_size == 11 and tokenizer.encode(["[CLS]"])[0].tolist() != [2, 2, 3]
    is_special = "added_tokens_decoder" not in files.get("tokenizer_config", {}) and list(files) != ["added_tokens"]
    assert (10 in tokenizer.encode(["[e1]"])[0]) != is_special


def test_ids_of_added_tokens(tmp_path):
    with refused("ids from 10 on", [12]):
        tokenizer_of(write(tmp_path, "bert", added_tokens={"[E1]": 12}))
    with refused("one id", "'a' of ids 11 and 5"):
        tokenizer_of(write(tmp_path, "bert", added_tokens={"a": 11}))
    with refused("vocabulary", "11 tokens for vocab_size=10"):
        tokenizer_of(write(tmp_path, "bert", size=10, added_tokens={"[E1]": 10}))
    inside = tokenizer_of(write(tmp_path, "bert", added_tokens={"[E2]": 11, "[E1]": 10, "b": 6}))
    assert inside.encode(["ab[E2][E1]"])[0].tolist() == [2, 5, 6, 11, 10, 3]


# SentencePiece


def reference(pieces, sentence, kind):
    """Ids by fairseq's rule: those of SentencePiece moved, but for the unknown token."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces["fairseq.model"])
    offset, bos, eos = (1, 0, 2) if kind == "xlm-roberta" else (4, 5, 6)
    return [
        bos,
        *(i + offset if i else 3 for i in processor.encode(sentence)),
        eos,
    ], processor.vocab_size() + offset + 1


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_fairseq(kind, pieces, tmp_path):
    write(tmp_path, kind, tokenizer_config={"tokenizer_class": {"xlm-roberta": "XLMRobertaTokenizer"}.get(kind)})
    (tmp_path / "sentencepiece.bpe.model").write_bytes(pieces["fairseq.model"])
    tokenizer = tokenizer_of(tmp_path)
    assert isinstance(tokenizer, SentencePiecePairTokenizer)
    for sentence in [*SENTENCES, "", "中 cat", "the <mask> </s>"]:
        ids, size = reference(pieces, sentence, kind)
        assert tokenizer.encode([sentence])[0].tolist() == ids and tokenizer.vocabulary_size == size
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (1, 3, size - 1)
    a, b = (reference(pieces, sentence, kind)[0] for sentence in SENTENCES[:2])
    assert tokenizer(SENTENCES[:1], SENTENCES[1:2]).numpy().tolist() == [[*a, b[-1], *b[1:]]]
    assert tokenizer.detokenize([[*a, tokenizer.mask_id, 1, 1]]).numpy()[0].decode() == SENTENCES[0]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<e>": size}))
    added = tokenizer_of(tmp_path, max_length=30)
    assert (
        added.encode(["the cat<e>the cat"])[0].tolist()
        == [*reference(pieces, "the cat", kind)[0][:-1], size] + (reference(pieces, "the cat", kind)[0][1:])
    )


def test_t5(pieces, tmp_path):
    write(tmp_path, "t5", size=200)
    (tmp_path / "spiece.model").write_bytes(pieces["spiece.model"])
    assert tokenizer_of(tmp_path).vocabulary_size == 130
    (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": 2, "legacy": false, "eos_token": "</s>"}')
    plain = tokenizer_of(tmp_path)
    assert plain.vocabulary_size == 32
    (tmp_path / "added_tokens.json").write_text('{"<e>": 32, "<extra_id_0>": 31}')
    with refused("legacy", "legacy=False and '<e>'"):
        tokenizer_of(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": 2}')
    added = tokenizer_of(tmp_path)
    cat = plain.encode(["the cat"])[0].tolist()
    assert added.encode(["the cat <e>the cat"])[0].tolist() == [*cat[:-1], 32, *cat]
    (tmp_path / "config.json").write_text('{"model_type": "mt5", "vocab_size": 60}')
    (tmp_path / "added_tokens.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    assert tokenizer_of(tmp_path).vocabulary_size == 30
    np.testing.assert_array_equal(tokenizer_of(tmp_path)(SENTENCES), plain(SENTENCES))


@pytest.mark.parametrize("kind, name", [("t5", "spiece.model"), ("xlm-roberta", "sentencepiece.bpe.model")])
def test_damaged_models(kind, name, tmp_path):
    write(tmp_path, kind)
    with refused(name, tmp_path, FileNotFoundError):
        tokenizer_of(tmp_path)
    (tmp_path / name).write_bytes(b"junk")
    with refused(name, "4 bytes"):
        tokenizer_of(tmp_path)
