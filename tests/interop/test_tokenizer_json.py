"""tokenizer.json, read here and by the package that writes it."""

import base64
import json

import pytest

from keras_headattn.interop import tokenizer_of
from keras_headattn.text import (
    BytePairTokenizer,
    SentencePiecePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
)
from tests.interop.odd_lines import WORDS, odd_lines

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
    assert normal, [(lines[i], theirs[i].tokens) for i in different[:3]]
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


@pytest.mark.parametrize("kind", ["t5", "mt5", "xlm-roberta", "camembert"])
def test_unigram(kind, scores, charsmap, tmp_path):
    """But for the character U+0085, which SentencePiece does not know as white space."""
    import sentencepiece

    peer = of_sentences(kind, scores, charsmap)
    ours = tokenizer_of(write(tmp_path, kind, peer))
    assert isinstance(ours, SentencePieceTokenizer if kind in ("t5", "mt5") else SentencePiecePairTokenizer)
    processor = sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(ours.get_config()["proto"]))
    known = dict(scores)

    def score(ids):
        return sum(known.get(ours.id_to_token(int(i)), -50.0) for i in ids)

    def normal(line):
        return processor.normalize(line).replace(WORD_START, " ")

    lines = [line for line in LINES if "\x85" not in line]
    ids = check(ours, peer, lines, normal, score)
    assert ours.vocabulary_size == peer.get_vocab_size()
    for text, line in zip(ours.detokenize(ids).numpy(), lines, strict=True):
        if "\N{DOUBLE QUESTION MARK}" not in text.decode():
            assert text.decode() == normal(line).removeprefix(" ")
