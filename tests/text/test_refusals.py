"""Vocabularies, sizes and texts that tokenizers and their training refuse."""

import functools
import io
import pathlib
import tempfile

import keras
import tensorflow as tf

from keras_headattn import text
from keras_headattn._files import decode_lines
from tests.refusals import refusals, values
from tests.text.test_byte_fallback_tokenizer import trained

SENTENCES = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
BYTE_PAIRS = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PIECES = [*SPECIALS, "a", "cat"]
windows = functools.partial(text.QuestionWindows, text.WordPieceTokenizer(PIECES))


@functools.cache
def model():
    """A SentencePiece model of 40 pieces, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        return text.train_sentencepiece(SENTENCES, pathlib.Path(folder, "a.model"), 40).read_bytes()


def byte_pairs(vocabulary=BYTE_PAIRS, merges=(), **options):
    return lambda: text.BytePairTokenizer(vocabulary, merges, **options)


def sentence_pieces(**options):
    return lambda: text.SentencePieceTokenizer(model(), **options)


def called(make, *texts):
    return lambda: make()(*texts)


def train(sentences=SENTENCES, vocabulary_size=24, **options):
    text.train_sentencepiece(sentences, pathlib.Path("none", "a.model"), vocabulary_size, **options)


test_byte_pair_tokenizer = refusals(
    *((byte_pairs(merges=["a b", merge]), "merges", f"merges[1]='{merge}'") for merge in ("a c", "b a", "ab", "a  b")),
    (byte_pairs(merges=["a b", "a b"]), "merges", "'a b' in merges[1], as in merges[0]"),
    (byte_pairs(merges=[7]), "merges", "merges[0]=7"),
    (byte_pairs(["<s>", "<pad>"]), "vocabulary", "without "),
    (byte_pairs({"a": 0, "b": 7}), "vocabulary", "ids from 0 to 7"),
    (byte_pairs([*BYTE_PAIRS, "a"]), "vocabulary", "'a' of ids 4 and 7"),
    (byte_pairs([*BYTE_PAIRS, 5]), "vocabulary", "5 of id 7"),
    (byte_pairs([*BYTE_PAIRS, "a\0"]), "vocabulary", r"'a\x00' of id 7"),
    (byte_pairs("none.json"), "no such file", "none.json", FileNotFoundError),
    (byte_pairs(max_length=4), "max_length", 4),
    (byte_pairs(added_tokens=["a", "a"]), "added_tokens", ["a", "a"]),
    (byte_pairs(added_tokens=[""]), "added_tokens", {"content": ""}),
    (byte_pairs(added_tokens=[{"content": 5}]), "added_tokens", {"content": 5}),
    (byte_pairs(added_tokens=[{"content": "a", "single_word": True}]), "added_tokens", "single_word"),
)

test_language_model_tokenizers = refusals(
    *values(
        functools.partial(text.BytePairTokenizer, BYTE_PAIRS, []),
        specials=({"cls": "<s>"}, {"eos": ""}),
        pre_tokenizer=("gpt4", None),
    ),
    (byte_pairs(specials={"eos": "</e>"}), "vocabulary", "without </e>"),
    (byte_pairs(specials=None, pre_tokenizer="llama3", add_prefix_space=True), "add_prefix_space", True),
    (lambda: text.ByteFallbackTokenizer(model()), "proto", "'normalization_rule_name': 'nmt_nfkc'"),
    (lambda: text.ByteFallbackTokenizer("none.model"), "proto", "none.model", FileNotFoundError),
    (lambda: text.ByteFallbackTokenizer(trained(), specials={"eos": "</e>"}), "vocabulary", "without </e>"),
    *values(text.CharacterTokenizer, vocabulary=([], ["a", "a"], ["ab"], ["\ud800"], [5])),
    *values(functools.partial(text.train_byte_pairs, ["a"]), size=(256, 0, 300.5)),
    (lambda: text.train_byte_pairs(["a"], 300, "gpt4"), "pre_tokenizer", "'gpt4'"),
    (lambda: text.train_byte_pairs(["a", 5], 300), "Texts", 5),
    (lambda: text.train_byte_pairs("abc", 300), "Texts", "'abc'"),
)

test_pairs = refusals(
    (lambda: text.WordPieceTokenizer(PIECES).encode(["a", "b"], ["a"]), "`second_texts`", "2 texts and 1 second_texts"),
    (lambda: text.TextWindows(text.train_byte_pairs(["ab"], 258)), "beginning and an end", "bos_id=-1"),
    (lambda: text.QuestionWindows(text.train_byte_pairs(["ab"], 258)), "beginning and an end", "bos_id=-1"),
    (lambda: text.WordPieceTokenizer(PIECES).encode(["a"], "a"), "`second_texts`", "the str 'a'"),
    (lambda: windows(16, 4, 4).encode(["a", "b"], ["a", "b"], [None]), "`answers`", "1 answers"),
)

test_word_piece_tokenizer = refusals(
    (lambda: text.WordPieceTokenizer(["[PAD]", "[CLS]", "a"]), "vocabulary", "without [UNK], [SEP]"),
    (lambda: text.WordPieceTokenizer([*PIECES, "a"]), "vocabulary", "'a' in vocabulary[6], as in vocabulary[4]"),
    (lambda: text.WordPieceTokenizer(SPECIALS), "vocabulary", "4 tokens"),
    (lambda: text.WordPieceTokenizer("none.txt"), "No such file", "none.txt", FileNotFoundError),
    *values(functools.partial(text.WordPieceTokenizer, PIECES), max_length=(3, 0)),
    (lambda: text.WordPieceTokenizer(PIECES).id_to_token(6), "token_id", 6),
    (lambda: text.WordPieceTokenizer(PIECES)(["a"], [["a", "b"]]), "second_texts", "strings of shape (1, 2)"),
)

test_word_tokenizer = refusals(
    (lambda: text.WordTokenizer([]), "vocabulary", []),
    (lambda: text.WordTokenizer(["cat", "dog", "cat"]), "vocabulary", ["cat"]),
    (lambda: text.WordTokenizer("none.txt"), "No such file", "none.txt", FileNotFoundError),
    (lambda: text.WordTokenizer(["cat"])(tf.constant([["a", "b"]])), "strings", "strings of shape (1, 2)"),
    (lambda: text.WordTokenizer(["cat"]).id_to_token(3), "word_id", 3),
)

test_sentence_piece_tokenizer = refusals(
    (lambda: text.SentencePieceTokenizer(b"junk"), "proto", "4 bytes"),
    (lambda: text.SentencePieceTokenizer("vocabulary/none.model"), "proto", "vocabulary/none.model", FileNotFoundError),
    (lambda: text.SentencePieceTokenizer("runs/Wörter.model"), "proto", "runs/Wörter.model", FileNotFoundError),
    (sentence_pieces(sequence_length=2, add_bos=True), "sequence_length", 2),
    (sentence_pieces(max_length=1), "max_length", 1),
    (sentence_pieces(num_sentinels=-1), "num_sentinels", -1),
    (lambda: sentence_pieces(num_sentinels=2)().sentinel_id(2), "index", "index=2"),
    *values(lambda piece_id: sentence_pieces()().id_to_token(piece_id), piece_id=(-1, 40)),
    *((called(sentence_pieces(), tf.fill(s, "cat")), "strings", f"shape {s}") for s in [(), (2, 2), (2, 1, 1)]),
    (lambda: sentence_pieces()()(keras.Input(batch_shape=(2, 2), dtype="string")), "strings", "shape (2, 2)"),
)

test_training_of_sentence_pieces = refusals(
    *values(
        train,
        vocabulary_size=(3, 0, 24.5, "24", float("nan")),
        character_coverage=(2.0, 0.5, 0, -1, float("nan"), "x", True, None),
        user_defined_symbols=(["[M]", "[M]"], [""]),
        model_type=("wordpiece",),
    ),
    (lambda: train(vocabulary_size=5, user_defined_symbols=["[MASK]"]), "vocabulary_size", 5),
    (lambda: train([]), "no text", ""),
    (lambda: train(["", "  "]), "no text", ""),
    (lambda: train(["a cat", 3]), "files_or_sentences", 3),
    (lambda: train(decode_lines(io.BytesIO(b"a cat\n\xff"), "a.txt")), "a.txt, line 2", "byte 0xff"),
    (lambda: train([__file__]), "files_or_sentences", __file__),
    (lambda: train(pathlib.Path("none.txt")), "No such file", "none.txt", FileNotFoundError),
)

test_other_learning = refusals(
    (lambda: text.learn_words(["a a"], min_count=3), "occur 3 times", "1 other"),
    (lambda: text.learn_words(["a a b"], vocabulary_size=1), "vocabulary_size", 1),
    (lambda: text.learn_wordpieces(["abc abd"], 12), "possible size is 13", 12),
    (lambda: text.learn_wordpieces(["", " "], 20), "must have words", "texts without any"),
)

test_question_windows = refusals(
    *values(windows, stride=(0,), max_question_length=(-1,)),
    (lambda: windows(max_length=10, max_question_length=7), "max_length", "max_length=10"),
)
