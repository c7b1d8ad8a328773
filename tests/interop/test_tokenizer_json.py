"""tokenizer.json, read here and by the package that writes it."""

import base64
import json
import unicodedata

import numpy as np
import pytest

from keras_headattn.interop import tokenizer_of
from keras_headattn.text import (
    BytePairTokenizer,
    ModernBertTokenizer,
    SentencePiecePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
)
from tests.interop.odd_lines import WORDS, odd_lines
from tests.refusals import refused

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LINES = odd_lines()
TEXT = [line for line in LINES if len(set(line)) > 3] + WORDS * 20


def write(folder, kind, tokenizer=None, document=None, size=20_000, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": size}))
    text = json.dumps(document, ensure_ascii=False) if tokenizer is None else tokenizer.to_str()
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def word_pieces(lowercase):
    tokenizer = tokenizers.BertWordPieceTokenizer(lowercase=lowercase)
    tokenizer.train_from_iterator(TEXT, 4000, special_tokens=BERT, show_progress=False, limit_alphabet=3000)
    ids = {token: BERT.index(token) for token in BERT}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer._tokenizer


def byte_pairs(add_prefix_space):
    tokenizer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=add_prefix_space)
    tokenizer.train_from_iterator(TEXT, 1000, special_tokens=ROBERTA, show_progress=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, add_prefix_space)
    return tokenizer._tokenizer


def modern_byte_pairs(pair_segment=1):
    """A tokenizer as ModernBERT has it: runs of spaces and special tokens are added after the vocabulary."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["<|padding|>", *TEXT], trainer)
    tokenizer.add_tokens([tokenizers.AddedToken(" " * count) for count in (4, 3, 2)] + ["|||EMAIL_ADDRESS|||"])
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, lstrip=token == "[MASK]") for token in sorted(BERT)])
    tokenizer.add_tokens(["[unused0]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A [SEP] $B:{pair_segment} [SEP]:{pair_segment}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


@pytest.fixture(scope="module")
def charsmap(tmp_path_factory):
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    path = train_sentencepiece(["ab ba"], tmp_path_factory.mktemp("sentencepiece") / "a.model", 8)
    return ModelProto.FromString(path.read_bytes()).normalizer_spec.precompiled_charsmap


@pytest.fixture(scope="module")
def scores(charsmap):
    """Pieces that a unigram model learns from the lines, with their scores."""
    tokenizer = unigram([("<unk>", 0.0)], 0, charsmap)
    trainer = trainers.UnigramTrainer(vocab_size=9000, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    return [(token, score) for token, score in vocabulary if token != "<unk>" and "\0" not in token]


def unigram(vocabulary, unknown, charsmap):
    tokenizer = tokenizers.Tokenizer(models.Unigram(vocabulary, unknown, False))
    if charsmap is not None:
        tokenizer.normalizer = normalizers.Precompiled(charsmap)
    spaces = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def of_sentences(kind, scores, charsmap):
    """A tokenizer as T5, mT5, XLM-R or CamemBERT have it."""
    first = {
        "camembert": ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"],
        "xlm-roberta": ROBERTA[:4],
    }.get(kind, ["<pad>", "</s>", "<unk>"])
    last = {
        "t5": [f"<extra_id_{i}>" for i in (2, 1, 0)],
        "mt5": [f"{WORD_START}<extra_id_{i}>" for i in (1, 0)],
    }.get(kind, ["<mask>"])
    vocabulary = [(token, 0.0) for token in first] + scores + [(token, 0.0) for token in last]
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    tokenizer = unigram(vocabulary, ids["<unk>"], charsmap)
    tokenizer.add_special_tokens([token for token in (*first, *last) if "NOTUSED" not in token])
    single, pair = (
        ("$A </s>", "$A </s> $B </s>") if kind in ("t5", "mt5") else ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(t, ids[t]) for t in ("<s>", "</s>") if t in ids]
    )
    return tokenizer


def check(ours, peer, lines=LINES, normal=None, score=None):
    """Ids in the graph, of `encode` and of the package are the same; returns them.

    Args:
        normal: function of a line, the text that the package splits where it normalizes as SentencePiece does not.
        score: function of ids. Ids of the same score are two ways to split a line, which rounding decides.
    """

    def alike(ids, others):
        return list(ids) == list(others) or score and score(ids) == pytest.approx(score(others), abs=1e-6)

    in_graph, encoded = ours(lines).numpy(), ours.encode(lines)
    for row, ids in zip(in_graph, encoded, strict=True):
        assert alike(row[: len(ids)], ids) and (row[len(ids) :] == ours.pad_id).all()
    theirs = peer.encode_batch(lines)
    different = [i for i, ids in enumerate(encoded) if not alike(ids, theirs[i].ids)]
    if not different:
        return in_graph
    assert normal and len(different) < 50, [(lines[i], theirs[i].tokens) for i in different[:3]]
    bare = tokenizers.Tokenizer.from_str(peer.to_str())
    bare.normalizer = normalizers.Sequence([])
    again = bare.encode_batch([normal(lines[i]) for i in different])
    different = [
        (lines[i], entry.tokens) for i, entry in zip(different, again, strict=True) if not alike(encoded[i], entry.ids)
    ]
    assert not different, (len(different), different[:3])
    return in_graph


@pytest.mark.parametrize("lowercase", [True, False])
def test_word_pieces(lowercase, tmp_path):
    peer = word_pieces(lowercase)
    ours = tokenizer_of(write(tmp_path, "bert", peer))
    assert isinstance(ours, WordPieceTokenizer) and len(LINES) > 1_900
    ids = check(ours, peer)
    texts = [text.decode() for text in ours.detokenize(ids).numpy()]
    assert texts == [" ".join(x.tokens[1:-1]).replace(" ##", "") for x in peer.encode_batch(LINES)]


@pytest.mark.parametrize("add_prefix_space", [True, False])
def test_byte_pairs(add_prefix_space, tmp_path):
    peer = byte_pairs(add_prefix_space)
    ours = tokenizer_of(write(tmp_path, "roberta", peer))
    assert isinstance(ours, BytePairTokenizer)
    ids = check(ours, peer)
    texts = [text.decode() for text in ours.detokenize(ids).numpy()]
    assert [text.removeprefix(" ") for text in texts] == [line.removeprefix(" ") for line in LINES]


@pytest.mark.parametrize("pair_segment", [0, 1])
def test_modern_byte_pairs(pair_segment, tmp_path):
    peer = modern_byte_pairs(pair_segment)
    ours = tokenizer_of(
        write(tmp_path, "modernbert", peer, tokenizer_class="PreTrainedTokenizerFast", pad_token="[PAD]")
    )
    assert type(ours) is ModernBertTokenizer and ours.vocabulary_size == peer.get_vocab_size()
    names = ("pad", "unk", "bos", "eos", "mask")
    found = [ours.id_to_token(getattr(ours, f"{name}_id")) for name in names]
    assert found == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    spaced = [
        "a    b  c",
        "x     ",
        "   |||EMAIL_ADDRESS||| [unused0]  ",
        "e\u0301 A\u030a  \u0301",
        "[MASK",
        "[unused1]",
    ]
    ids = check(ours, peer, [*LINES, *spaced])
    texts = [text.decode() for text in ours.detokenize(ids).numpy()]
    assert texts == [unicodedata.normalize("NFC", line) for line in [*LINES, *spaced]]
    pairs = peer.encode_batch(list(zip(WORDS[:9], WORDS[1:10], strict=True)))
    rows = ours.encode(WORDS[:9], WORDS[1:10])
    assert [row.tolist() for row in rows] == [entry.ids for entry in pairs]
    text = "a   cafe\u0301 |||EMAIL_ADDRESS||| \u1100\u1161"
    _, starts, ends = (side.to_list()[0] for side in ours.tokenize_with_offsets([text]))
    found = {text[start:end] for start, end in zip(starts, ends, strict=True)}
    assert {"|||EMAIL_ADDRESS|||", "\u1100\u1161"} <= found and "e" not in found
    again = ModernBertTokenizer.from_config(ours.get_config())
    np.testing.assert_array_equal(again(spaced), ours(spaced))


@pytest.mark.parametrize("kind", ["t5", "mt5", "xlm-roberta", "camembert", "t5 as it is"])
def test_unigram(kind, scores, charsmap, tmp_path):
    """But for U+0085, which SentencePiece does not know as white space, and for signs that stand for spaces in pieces.

    The latter matter where there is no normalizer, which would make them spaces.
    """
    import sentencepiece

    kind, _, as_it_is = kind.partition(" ")
    peer = of_sentences(kind, scores, None if as_it_is else charsmap)
    ours = tokenizer_of(write(tmp_path, kind, peer))
    assert isinstance(ours, SentencePieceTokenizer if kind in ("t5", "mt5") else SentencePiecePairTokenizer)
    processor = sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(ours.get_config()["proto"]))
    known = dict(scores)

    def score(ids):
        return sum(known.get(ours.id_to_token(int(i)), -50.0) for i in ids)

    def normal(line):
        return processor.normalize(line).replace(WORD_START, " ")

    lines = [line for line in LINES if "\x85" not in line and not (as_it_is and WORD_START in line)]
    ids = check(ours, peer, lines, normal, score)
    assert ours.vocabulary_size == peer.get_vocab_size()
    for text, line in zip(ours.detokenize(ids).numpy(), lines, strict=True):
        if "\N{DOUBLE QUESTION MARK}" not in text.decode():
            assert text.decode() == normal(line).removeprefix(" ")


ADDED = [
    tokenizers.AddedToken("[E1]", normalized=True),
    tokenizers.AddedToken("[E12]", normalized=False, special=True),
    tokenizers.AddedToken("<left>", lstrip=True, normalized=False),
    tokenizers.AddedToken("<right>", rstrip=True, normalized=False),
    tokenizers.AddedToken("Été", normalized=True),
    tokenizers.AddedToken("cat", normalized=False),
]
WITH_ADDED = [
    "a [E1] b", "a[E1]b", "[E1]", "[e1][E12][E1]", "the  <left> \t cat <right>\u3000 dogs", " <left><right> ",
    "ÉTÉ été Ete", "cats CAT Cat", "x<left>y<right>z  ", "[E1] [E1]  [E12", "[MASK", "", " ", "\t[E12]\n",
    "a\u0301[E1]\u0301b",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["bert", "roberta", "t5", "xlm-roberta"])
def test_added_tokens(kind, scores, charsmap, tmp_path):
    peer = {
        "bert": lambda: word_pieces(True),
        "roberta": lambda: byte_pairs(True),
    }.get(kind, lambda: of_sentences(kind, scores, charsmap))()
    peer.add_tokens([token for token in ADDED if kind in ("bert", "roberta") or not token.normalized])
    ours = tokenizer_of(write(tmp_path, kind, peer))
    ids = check(ours, peer, WITH_ADDED)
    assert ours.vocabulary_size == peer.get_vocab_size() and "[E12]" in [ours.id_to_token(int(i)) for i in ids[3]]
    assert b"[E12]" in ours.detokenize(ids).numpy()[3]
    again = type(ours).from_config(ours.get_config())
    np.testing.assert_array_equal(again(WITH_ADDED), ids)


def changed(document, path, value):
    *parents, last = path.split("/")
    for name in parents:
        document = document[int(name) if name.isdigit() else name]
    document[int(last) if last.isdigit() else last] = value


SMALL = {
    "bert": lambda: tokenizers.Tokenizer(
        models.WordPiece({t: i for i, t in enumerate([*BERT, "a"])}, unk_token="[UNK]")
    ),
    "roberta": lambda: tokenizers.Tokenizer(
        models.BPE({t: i for i, t in enumerate([*ROBERTA, "a", "b", "ab"])}, [("a", "b")])
    ),
    "t5": lambda: tokenizers.Tokenizer(models.Unigram([("<pad>", 0), ("</s>", 0), ("<unk>", 0), ("a", -1)], 2, False)),
}


def small(kind, charsmap):
    """The content of a tokenizer.json with a few tokens."""
    tokenizer = SMALL[kind]()
    if kind == "bert":
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    elif kind == "roberta":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        spaces = pre_tokenizers.Metaspace()
        tokenizer.normalizer = normalizers.Precompiled(charsmap)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
        tokenizer.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    return json.loads(tokenizer.to_str())


@pytest.mark.parametrize("kind, path, value, name, received", [
    ("bert", "model/max_input_chars_per_word", 200, "model.max_input_chars_per_word", 200),
    ("bert", "model/unk_token", "<unk>", "model.unk_token", "<unk>"),
    ("bert", "model/unknown_key", 1, "model.unknown_key", 1),
    ("bert", "model/vocab", {"[PAD]": 0, "a": 2}, "model.vocab", "ids that are not 0 to 1"),
    ("bert", "model", 5, "model", 5),
    ("bert", "normalizer/handle_chinese_chars", False, "normalizer.handle_chinese_chars", False),
    ("bert", "normalizer/clean_text", False, "normalizer.clean_text", False),
    ("bert", "normalizer", {"type": "Sequence", "normalizers": []}, "normalizer.type", "Sequence"),
    ("bert", "pre_tokenizer", {"type": "Whitespace"}, "pre_tokenizer.type", "Whitespace"),
    ("bert", "post_processor", None, "post_processor", None),
    ("bert", "post_processor/sep/0", "[PAD]", "post_processor", "[PAD]"),
    ("bert", "padding", {"direction": "Left"}, "padding.direction", "Left"),
    ("bert", "truncation", {"direction": "Left"}, "truncation.direction", "Left"),
    ("bert", "added_tokens", [{"id": 9, "content": "x"}], "ids from 6 on", [9]),
    ("bert", "added_tokens", [{"id": 5, "content": "[PAD]"}], "one id", "'[PAD]' of ids 5 and 0"),
    ("bert", "added_tokens", [{"id": 6, "content": "x", "single_word": True}], "single_word", ["x"]),
    ("bert", "added_tokens", 7, "added_tokens", 7),
    ("roberta", "model/byte_fallback", True, "model.byte_fallback", True),
    ("roberta", "model/dropout", 0.1, "model.dropout", 0.1),
    ("roberta", "model/ignore_merges", True, "model.ignore_merges", True),
    ("roberta", "model/merges", [["a", "c"]], "merges", "merges[0]='a c'"),
    ("roberta", "normalizer", {"type": "NFC"}, "normalizer", {"type": "NFC"}),
    ("roberta", "pre_tokenizer/use_regex", False, "pre_tokenizer.use_regex", False),
    ("t5", "model/byte_fallback", True, "model.byte_fallback", True),
    ("t5", "model/vocab", [["a", "b"]], "model.vocab", [["a", "b"]]),
    ("t5", "model/unk_id", None, "model.unk_id", None),
    ("t5", "model/vocab/1/0", "<end>", "vocabulary", "without </s>"),
    ("t5", "normalizer", {"type": "NFKC"}, "normalizer", {"type": "NFKC"}),
    ("t5", "normalizer/precompiled_charsmap", "?", "precompiled_charsmap", "'?'"),
    ("t5", "normalizer/precompiled_charsmap", "AAAA", "SentencePiece model", "bytes"),
    ("t5", "pre_tokenizer/pretokenizers/0", {"type": "Punctuation"}, "pre_tokenizer", {"type": "Punctuation"}),
    ("t5", "pre_tokenizer/pretokenizers/1/prepend_scheme", "never", "pre_tokenizer.prepend_scheme", "never"),
    ("t5", "pre_tokenizer", {"type": "Metaspace", "replacement": WORD_START}, "pre_tokenizer", "Metaspace"),
])  # fmt: skip
def test_refused_by_name(kind, path, value, name, received, charsmap, tmp_path):
    document = small(kind, charsmap)
    extra = {"extra_ids": 0} if kind == "t5" else {}
    assert tokenizer_of(write(tmp_path / "good", kind, document=document, **extra)).encode(["a"])[0].size
    changed(document, path, value)
    with refused(name, received) as error:
        tokenizer_of(write(tmp_path / "bad", kind, document=document, **extra))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"model": []}', "[" * 100_000])
def test_damaged_files(text, tmp_path):
    write(tmp_path, "bert", document={})
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match="tokenizer.json"):
        tokenizer_of(tmp_path)


def test_settings_come_first(charsmap, tmp_path):
    """As in transformers, whose classes set them anew."""
    document = small("bert", charsmap)
    assert tokenizer_of(write(tmp_path, "bert", document=document)).lowercase
    tokenizer = tokenizer_of(write(tmp_path, "bert", document=document, do_lower_case=False, strip_accents=True))
    assert not tokenizer.lowercase and tokenizer.strip_accents
    document["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    assert len(tokenizer_of(write(tmp_path, "bert", document=document)).encode(["a " * 9])[0]) == 11


def test_the_real_one(shared_data):
    folder = shared_data / "ckpt_minilm_l6_bert"
    peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    peer.no_truncation()
    peer.no_padding()
    check(tokenizer_of(folder), peer)
