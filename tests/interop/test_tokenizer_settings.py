"""Settings of tokenizers in the files of a checkpoint: honoured, harmless or refused by name."""

import json

import keras
import pytest

from keras_headattn.interop import tokenizer_of
from keras_headattn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer, WordTokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"]


def folder_of(path, tokens=TOKENS, **files):
    (path / "config.json").write_text('{"model_type": "bert", "vocab_size": 12}')
    (path / "vocab.txt").write_text("\n".join(tokens))
    for name, values in files.items():
        (path / f"{name}.json").write_text(json.dumps(values))
    return path


def test_another_tokenizer_is_refused(tmp_path):
    folder_of(tmp_path, tokenizer_config={"tokenizer_class": "BertJapaneseTokenizer", "do_lower_case": False})
    with pytest.raises(ValueError, match="`tokenizer_class` of bert must be BertTokenizer.*Received: 'BertJapanese"):
        tokenizer_of(tmp_path)


@pytest.mark.parametrize(
    "key, value",
    [
        ("word_tokenizer_type", "mecab"), ("subword_tokenizer_type", "character"), ("never_split", ["ab"]),
        ("tokenize_chinese_chars", False), ("padding_side", "left"), ("frobnicate", 3), ("mask_token", "<mask>"),
        ("do_basic_tokenize", False),
    ],
)  # fmt: skip
def test_keys_that_change_ids_are_refused(tmp_path, key, value):
    folder_of(tmp_path, tokenizer_config={key: value})
    with pytest.raises(ValueError, match=f"{key}.*tokenizer_config.json"):
        tokenizer_of(tmp_path)


def test_keys_that_change_nothing_are_passed_over(tmp_path):
    folder_of(tmp_path, tokenizer_config={"model_max_length": 512, "name_or_path": "x", "mask_token": "[MASK]"})
    assert tokenizer_of(tmp_path)(["ab"]).numpy().tolist() == [[2, 5, 7, 3]]


@pytest.mark.parametrize(
    "files",
    [
        {"added_tokens": {"[E1]": 8}},
        {"added_tokens": {"[E1]": 8}, "special_tokens_map": {"additional_special_tokens": ["[E1]"]}},
        {"tokenizer_config": {"added_tokens_decoder": {"8": {"content": "[E1]", "special": True}}}},
    ],
)
def test_added_tokens_stay_whole(tmp_path, files):
    tokenizer = tokenizer_of(folder_of(tmp_path, **files))
    assert tokenizer(["a [E1] b", "[E1]ab[E1]"]).numpy().tolist() == [[2, 5, 8, 6, 3, 0], [2, 8, 5, 7, 8, 3]]
    assert tokenizer.encode(["a [E1] b"])[0].tolist() == [2, 5, 8, 6, 3]
    again = type(tokenizer).from_config(tokenizer.get_config())
    assert again(["a [E1] b"]).numpy().tolist() == [[2, 5, 8, 6, 3]]


def test_added_tokens_without_a_place_are_refused(tmp_path):
    folder_of(tmp_path, added_tokens={"[E1]": 9})
    with pytest.raises(ValueError, match="Added tokens must have the ids from 8 on.*Received: .9."):
        tokenizer_of(tmp_path)


@pytest.mark.parametrize(
    "tokens, reason",
    [
        ([*TOKENS, ""], "line 9"),
        ([*TOKENS, "a\0b"], "line 9"),
        ([*TOKENS, "a"], "line 9"),
        ([*TOKENS, "##"], "vocab.txt"),
    ],
)
def test_damaged_vocabularies(tmp_path, tokens, reason):
    (tmp_path / "vocab.txt").write_text("\n".join([*tokens, "c"]))
    try:
        found = WordPieceTokenizer(tmp_path / "vocab.txt")(["a c"]).numpy().tolist()
    except ValueError as error:
        assert reason in str(error) and "vocab.txt" in str(error)
    else:
        assert tokens[-1] == "##" and found[0][1] == 5


def test_long_tokens_and_words():
    """The limit is of 100 letters, as Hugging Face's, however many bytes a letter has."""
    tokenizer = WordPieceTokenizer([*TOKENS, "ก", "##ก"])
    assert tokenizer.encode(["ก" * 100])[0].tolist() == [2, 8, *[9] * 99, 3]
    assert tokenizer.encode(["ก" * 101])[0].tolist() == [2, 1, 3]
    assert tokenizer(["ก" * 100]).shape == (1, 102)
    with pytest.raises(ValueError, match="at most 256 bytes. Received: .*vocabulary.8."):
        WordPieceTokenizer([*TOKENS, "x" * 257])


@pytest.mark.parametrize(
    "cls, config",
    [
        (WordPieceTokenizer, {"vocabulary": "{path}"}),
        (WordTokenizer, {"vocabulary": "{path}"}),
        (BytePairTokenizer, {"vocabulary": "{path}", "merges": []}),
        (BytePairTokenizer, {"vocabulary": TOKENS, "merges": "{path}"}),
        (SentencePieceTokenizer, {"proto": "{path}"}),
    ],
)
def test_a_configuration_reads_no_files(tmp_path, cls, config):
    path = tmp_path / "secret.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "secret"]))
    values = {key: value.format(path=path) if isinstance(value, str) else value for key, value in config.items()}
    with pytest.raises(ValueError, match="in a configuration.*Received: .*secret.txt"):
        keras.saving.deserialize_keras_object(
            {"class_name": cls.__name__, "registered_name": f"keras_headattn>{cls.__name__}", "config": values}
        )
