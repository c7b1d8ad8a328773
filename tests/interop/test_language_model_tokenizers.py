"""tokenizer.json of language models, read here and by the package that writes it."""

import json
import unicodedata

import numpy as np
import pytest

from keras_headattn.interop import tokenizer_of
from keras_headattn.text import BytePairTokenizer
from tests.interop.test_tokenizer_json import changed
from tests.refusals import refused
from tests.text.generated import generated_texts

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = generated_texts(2000)
ADDED = ["<|end|>", "<|begin|>", "<think>"]  # the last one is not special


def byte_level(use_regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    pattern = tokenizers.Regex(pattern)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), byte_level(use_regex=False)])


# Normalizer and pre-tokenizer of each.
MODELS = {
    "gpt2": lambda: (None, byte_level()),
    "gpt_neox": lambda: (normalizers.NFC(), byte_level()),
    "smollm": lambda: (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])),
    "llama3": lambda: (None, split(LLAMA3)),
    "qwen2": lambda: (normalizers.NFC(), split(QWEN2)),
}
KINDS = {"smollm": "llama", "llama3": "llama"}


def peer(name, size=700):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    normalizer, tokenizer.pre_tokenizer = MODELS[name]()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS[:1500] + ["the cat's 1234 hats, they'll"] * 50, trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in ADDED[:2]])
    tokenizer.add_tokens(ADDED[2:])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if name == "llama3":
        ids = [(ADDED[1], tokenizer.token_to_id(ADDED[1]))]
        template = processors.TemplateProcessing("<|begin|> $A", "<|begin|> $A <|begin|> $B:1", ids)
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def write(folder, kind, document, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 1000}))
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": ADDED[0], **settings}))
    return folder


def check(ours, theirs, texts):
    """The same ids and texts, with special tokens as ordinary text and without."""
    for special in (True, False):
        theirs.encode_special_tokens = not special
        encoded, expected = ours.encode(texts, special_tokens=special), theirs.encode_batch(texts)
        different = [t for t, a, b in zip(texts, encoded, expected, strict=True) if a.tolist() != b.ids]
        assert not different, (len(different), different[:3])
    in_graph = ours(texts).numpy()
    for row, ids, text, decoded in zip(in_graph, encoded, texts, ours.detokenize(in_graph).numpy(), strict=True):
        assert row[: len(ids)].tolist() == ids.tolist() and (row[len(ids) :] == -1).all()
        text = text if theirs.normalizer is None else unicodedata.normalize("NFC", text)
        assert decoded.decode() == text and ours.token_bytes[ids].sum() == len(decoded)


@pytest.mark.parametrize("name", MODELS)
def test_ids_of_the_package(name, tmp_path):
    theirs = peer(name)
    document = json.loads(theirs.to_str())
    if name == "llama3":  # words that no merges make
        document["model"]["merges"], document["model"]["ignore_merges"] = document["model"]["merges"][:-60], True
        theirs = tokenizers.Tokenizer.from_str(json.dumps(document))
    ours = tokenizer_of(write(tmp_path, KINDS.get(name, name), document))
    assert type(ours) is BytePairTokenizer and ours.pre_tokenizer == name
    first = [ours.bos_id] if name == "llama3" else []
    assert ours.id_to_token(ours.eos_id) == "<|end|>" and first == [theirs.token_to_id("<|begin|>")] * len(first)
    check(ours, theirs, TEXTS)
    ids = ours.encode(["a<think>b<|end|>"], special_tokens=True)[0][len(first) :]
    assert [ours.id_to_token(int(i)) for i in ids] == ["a", "<think>", "b", "<|end|>"]
    assert ours.token_bytes[ids].tolist() == [1, 7, 1, 0] and len(ours.encode(["a<|end|>"])[0]) > 2
    again = BytePairTokenizer.from_config(ours.get_config())
    np.testing.assert_array_equal(again(TEXTS[:50]), ours(TEXTS[:50]))
    assert again.fingerprint == ours.fingerprint != BytePairTokenizer(ours.vocabulary, [], specials=None).fingerprint


@pytest.fixture(scope="module")
def documents():
    return {name: peer(name, 300).to_str() for name in ("llama3", "smollm", "qwen2")}


SPLIT = "pre_tokenizer/pretokenizers/0"
TEMPLATE = "post_processor/processors/1"


@pytest.mark.parametrize("model, path, value, name, received", [
    ("llama3", f"{SPLIT}/pattern", {"Regex": LLAMA3.replace("1,3", "1,2")}, "pre_tokenizer", "{1,2}"),
    ("llama3", f"{SPLIT}/pattern", {"String": LLAMA3}, "pre_tokenizer", "String"),
    ("llama3", f"{SPLIT}/behavior", "Removed", "pre_tokenizer", "Removed"),
    ("llama3", f"{SPLIT}/invert", True, "pre_tokenizer", "Isolated"),
    ("llama3", "pre_tokenizer/pretokenizers/1/use_regex", True, "pre_tokenizer.use_regex", True),
    ("llama3", "pre_tokenizer/pretokenizers/1/add_prefix_space", True, "pre_tokenizer.add_prefix_space", True),
    ("llama3", "pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer.type", "Metaspace"),
    ("llama3", "normalizer", {"type": "NFC"}, "normalizer", "NFC"),
    ("llama3", f"{TEMPLATE}/single/0/SpecialToken/type_id", 1, "post_processor", "TemplateProcessing"),
    ("llama3", f"{TEMPLATE}/single", [{"Sequence": {"id": "B", "type_id": 0}}], "post_processor", "TemplateProcessing"),
    ("llama3", "model/unk_token", "<|end|>", "model.unk_token", "<|end|>"),
    ("smollm", f"{SPLIT}/individual_digits", False, "pre_tokenizer", False),
    ("smollm", "post_processor", {"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]}, "post_processor", "cls"),
    ("qwen2", "normalizer", None, "normalizer", {}),
    ("qwen2", "normalizer", {"type": "NFKC"}, "normalizer", "NFKC"),
])  # fmt: skip
def test_refused_by_name(model, path, value, name, received, documents, tmp_path):
    document = json.loads(documents[model])
    assert tokenizer_of(write(tmp_path / "good", KINDS.get(model, model), document)).eos_id > 255
    changed(document, path, value)
    with refused(name, received):
        tokenizer_of(write(tmp_path / "bad", KINDS.get(model, model), document))


@pytest.mark.parametrize("settings, name, received", [
    ({"add_bos_token": True}, "add_bos_token", "True, template with None"),
    ({"add_eos_token": True}, "add_eos_token", True),
    ({"add_prefix_space": True}, "add_prefix_space", True),
    ({"eos_token": "</s>"}, "special tokens", "without </s>"),
    ({"eos_token": 5}, "eos_token", 5),
    ({"tokenizer_class": "LlamaTokenizer"}, "tokenizer_class", "'LlamaTokenizer'"),
    ({"legacy": False}, "legacy", "False and '<|end|>'"),
])  # fmt: skip
def test_refused_settings(settings, name, received, documents, tmp_path):
    with refused(name, received):
        tokenizer_of(write(tmp_path, "llama", json.loads(documents["smollm"]), **settings))


def test_settings(documents, tmp_path):
    settings = dict(
        tokenizer_class="Qwen2TokenizerFast", bos_token=None, pad_token="<|end|>", unk_token=None, vocab_size=303,
        add_bos_token=False, padding_side="left", eos_token={"content": "<|begin|>"}, split_special_tokens=False,
        additional_special_tokens=["<|begin|>"],
    )  # fmt: skip
    tokenizer = tokenizer_of(write(tmp_path, "qwen3", json.loads(documents["qwen2"]), **settings), add_eos=True)
    assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (-1, -1, -1, -1)
    assert tokenizer.id_to_token(tokenizer.encode([""])[0][-1]) == "<|begin|>"
    (tmp_path / "tokenizer_config.json").unlink()
    assert tokenizer_of(tmp_path).eos_id == -1  # "<|endoftext|>" without a setting, where there is one
    (tmp_path / "tokenizer.json").unlink()
    with refused("tokenizer.json", tmp_path, FileNotFoundError):
        tokenizer_of(tmp_path)
