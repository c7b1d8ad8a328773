"""Tokenizers of Llama 2, Mistral 7B and Gemma, read here and by the packages of Hugging Face."""

import json

import keras
import pytest

from keras_headattn.interop import to_hugging_face, tokenizer_of
from keras_headattn.interop._sentencepiece_models import read_model
from keras_headattn.layers import FeedForward
from keras_headattn.models import CausalLM
from keras_headattn.text import ByteFallbackTokenizer
from tests.interop.test_tokenizer_json import changed
from tests.refusals import refused
from tests.text.test_byte_fallback_tokenizer import TEXTS, trained

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import models, normalizers, pre_tokenizers, processors  # noqa: E402

WORD_START = "\u2581"
TEXTS = [*TEXTS, "<think> the", "the<think>the", " <think>the", "</s>the"]
SPACE, MARK = normalizers.Replace(" ", WORD_START), normalizers.Prepend(WORD_START)
SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2}
SETTINGS = dict(add_bos_token=True, eos_token="</s>", use_default_system_prompt=False, sp_model_kwargs={})
# Normalizer and pre-tokenizer, if they put a space before a text, and once.
WAYS = {
    "prepend": (normalizers.Sequence([MARK, SPACE]), None, True, False),
    "first": (None, pre_tokenizers.Metaspace(WORD_START, "first", split=False), True, True),
    "never": (SPACE, pre_tokenizers.Split(" ", "merged_with_previous"), False, False),
}


def peer(way):
    """The package's tokenizer, with the merges that Hugging Face makes of a SentencePiece model."""
    pieces = read_model(trained()).pieces
    ids = {piece.piece: index for index, piece in enumerate(pieces)}
    merges = [
        (piece.piece[:i], piece.piece[i:])
        for piece in sorted(pieces, key=lambda piece: -piece.score)
        for i in range(1, len(piece.piece))
        if {piece.piece[:i], piece.piece[i:]} <= ids.keys()
    ]
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    normalizer, pre_tokenizer, *_ = WAYS[way]
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([tokenizers.AddedToken("<think>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B:1", [("<s>", 1)])
    return tokenizer


def write(folder, document=None, proto=None, kind="llama", size=700, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": size}))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS | settings))
    if document:
        (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    if proto:
        (folder / "tokenizer.model").write_bytes(proto)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_ids_of_the_package(way, tmp_path):
    theirs, (*_, has_prefix, once) = peer(way), WAYS[way]
    document = json.loads(theirs.to_str())
    settings = dict(tokenizer_class="LlamaTokenizer", legacy=not once, add_prefix_space=has_prefix)
    model = read_model(trained())
    model.normalizer_spec.add_dummy_prefix = has_prefix
    ours = tokenizer_of(write(tmp_path, document, model.SerializeToString(), kind="mistral", **settings))
    assert type(ours) is ByteFallbackTokenizer and (ours.bos_id, ours.eos_id, ours.prefix_once) == (1, 2, once)
    for special in (True, False):
        theirs.encode_special_tokens = not special
        expected = [encoding.ids for encoding in theirs.encode_batch(TEXTS)]
        assert [ids.tolist() for ids in ours.encode(TEXTS, special_tokens=special)] == expected


def language_model(size):
    norm, feed_forward = keras.layers.RMSNormalization(), FeedForward(24, "silu", gated=True, use_bias=False)
    options = dict(norm=norm, feed_forward=feed_forward, attention_arguments={"use_bias": False})
    return CausalLM(size, num_layers=1, hidden_dim=16, num_heads=2, **options)


ADDED = {"600": {"content": "<think>", "special": False, "normalized": False}}


@pytest.mark.parametrize("changes, settings", [
    ({"control_symbols": "[I]"}, {"tokenizer_class": "TokenizersBackend", "legacy": True}),
    ({"control_symbols": "[I]"}, {"tokenizer_class": "LlamaTokenizer", "legacy": False}),
    ({"user_defined_symbols": "[I],\u2581\u2581", "add_dummy_prefix": False}, {"add_bos_token": False}),
])  # fmt: skip
def test_live(libraries, changes, settings, tmp_path):
    """transformers reads the same ids from a checkpoint's tokenizer.model, and from the one that is written."""
    _, transformers = libraries
    settings = dict(eos_token="</s>", added_tokens_decoder=ADDED) | settings
    ours = tokenizer_of(write(tmp_path / "theirs", proto=trained(**changes), **settings))
    for file in ("tokenizer.json", "added_tokens.json"):
        write(tmp_path / "ours").joinpath(file).write_text('{"<old>": 3}')
    to_hugging_face(language_model(601), tmp_path / "ours", tokenizer=ours)
    again, rows = tokenizer_of(tmp_path / "ours"), [ids.tolist() for ids in ours.encode(TEXTS, special_tokens=True)]
    assert again.fingerprint == ours.fingerprint
    for folder in ("theirs", "ours"):
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / folder)
        assert theirs(TEXTS)["input_ids"] == rows
    assert theirs.eos_token_id == ours.eos_id
    decoded = [text.decode() for text in ours.detokenize(ours(TEXTS, special_tokens=True)).numpy()]
    space = "" if "add_dummy_prefix" in changes else " "  # transformers leaves it out
    assert theirs.batch_decode(rows, skip_special_tokens=True) == [text.removeprefix(space) for text in decoded]


def test_tokens_of_gemma(tmp_path):
    """Special tokens that SentencePiece keeps whole are ordinary text; those without a row are left out."""
    added = {index: dict(content=content, special=True) for index, content in ((3, "[I]"), (600, "<image>"))}
    added[4] = dict(content="\n\n", special=False, normalized=False)
    proto = trained(user_defined_symbols="[I],\n\n", add_dummy_prefix=False)
    settings = dict(added_tokens_decoder=added, tokenizer_class="GemmaTokenizer", boi_token="<image>")
    tokenizer = tokenizer_of(write(tmp_path, proto=proto, kind="gemma3_text", size=600, **settings))
    assert tokenizer.vocabulary_size == 600 and [t["content"] for t in tokenizer.added_tokens] == ["[I]", "\n\n"]
    assert [ids.tolist() for ids in tokenizer.encode(["\n\n[I]"], special_tokens=True)] == [[1, 4, 3]]
    assert 3 not in tokenizer.encode(["[I]<image>"])[0]


def test_added_runs_of_spaces(tmp_path):
    """Gemma's are pieces of SentencePiece, whose texts are spaces."""
    runs = {index: dict(content="\u2581" * n, special=False, normalized=False) for index, n in ((3, 2), (4, 4))}
    proto = trained(user_defined_symbols=",".join(run["content"] for run in runs.values()), add_dummy_prefix=False)
    settings = dict(added_tokens_decoder=runs, tokenizer_class="GemmaTokenizer")
    tokenizer = tokenizer_of(write(tmp_path, proto=proto, kind="gemma2", size=600, **settings))
    text = "the  cat\n    sat"
    ids = tokenizer([text])
    assert {3, 4} < {*ids.numpy()[0].tolist()} and tokenizer.detokenize(ids).numpy()[0].decode() == text
    assert tokenizer.token_bytes[ids.numpy()[0]].sum() == len(text)
    ends = tokenizer.tokenize_with_offsets([text])[2].numpy()[0]
    assert ends.max() == len(text)


NORMAL = {"content": "<x>", "special": False, "normalized": True}


@pytest.mark.parametrize("path, value, settings, name, received", [
    ("normalizer/normalizers/0", {"type": "NFKC"}, {}, "normalizer", "NFKC"),
    ("pre_tokenizer", {"type": "Metaspace"}, {}, "pre_tokenizer", "Metaspace"),
    ("model/fuse_unk", True, {"add_bos_token": False}, "add_bos_token", "False, template with <s>"),
    ("model/fuse_unk", True, {"add_prefix_space": False}, "add_prefix_space", "False, True and True"),
    ("model/fuse_unk", True, {"add_eos_token": True}, "add_eos_token", True),
    ("model/fuse_unk", True, {"tokenizer_class": "GPT2Tokenizer"}, "tokenizer_class", "'GPT2Tokenizer'"),
    ("model/fuse_unk", True, {"added_tokens_decoder": {"601": NORMAL}}, "normalized", ["<x>"]),
])  # fmt: skip
def test_refused_by_name(path, value, settings, name, received, tmp_path):
    document = json.loads(peer("prepend").to_str())
    changed(document, path, value)
    with refused(name, received):
        tokenizer_of(write(tmp_path, document, trained(), **settings))


def test_pieces_are_needed(tmp_path):
    with refused("lacks the tokenizer's tokenizer.model", tmp_path, FileNotFoundError):
        tokenizer_of(write(tmp_path, json.loads(peer("prepend").to_str())))
