"""Entities in texts: their places, windows of long texts, and the SavedModel."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.models import Bert, TokenClassifier
from keras_headattn.serving import Entity, Tagger, export_tagger
from keras_headattn.text import BytePairTokenizer, TextWindows, WordPieceTokenizer, find_words, join_words
from keras_headattn.text._byte_pair_tokenizer import byte_signs
from recipes.tag.conll import entities_of

LETTERS = "abcdeosuzé"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "zoe", "oslo", "in"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


class Lookup(keras.Model):
    """Gives each id the tag of a table, whatever stands around it."""

    def __init__(self, tags, vocabulary_size):
        super().__init__()
        self.table = np.zeros((vocabulary_size, len(TAGS)), "float32")
        for token, tag in tags.items():
            self.table[token, TAGS.index(tag)] = 5.0

    def call(self, ids):
        return tf.gather(tf.constant(self.table), ids)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(TOKENS)


@pytest.fixture(scope="module")
def lookup(tokenizer):
    tags = {"zoe": "B-PER", "a": "I-PER", "oslo": "B-LOC", "b": "I-LOC", "##a": "B-LOC"}
    return Lookup({TOKENS.index(token): tag for token, tag in tags.items()}, len(TOKENS))


TEXTS = {
    "": [],
    "In  OSLO!": [("LOC", "OSLO")],
    "Zoe\u0308 A, oslo": [("PER", "Zoe\u0308 A"), ("LOC", "oslo")],  # ë, decomposed
    "🙂 Zoë A A in (Oslo b)": [("PER", "Zoë A A"), ("LOC", "Oslo b")],
    "b a zoe Oslo oslo": [("LOC", "b"), ("PER", "a"), ("PER", "zoe"), ("LOC", "Oslo"), ("LOC", "oslo")],
    "ca zoe": [("PER", "zoe")],  # the second piece of a word counts for nothing
}


def test_entities_and_their_places(tokenizer, lookup):
    calls = []
    found = Tagger(lookup, tokenizer, TAGS, batch_size=2)(list(TEXTS), calls.append)
    assert calls == [2, 4, 6]
    for (text, wanted), row in zip(TEXTS.items(), found, strict=True):
        assert [(entity.kind, entity.text) for entity in row] == wanted
        assert all(text[entity.start : entity.end] == entity.text for entity in row)
        scores = [np.exp(5) / (np.exp(5) + 4)] * len(row)
        np.testing.assert_allclose([entity.score for entity in row], scores, rtol=1e-5)
    assert Tagger(lookup, tokenizer, TAGS)([]) == []


@pytest.mark.parametrize("max_length", [None, 4, 5, 9])
def test_windows_change_no_tag_that_needs_no_context(max_length, tokenizer, lookup):
    sentences = [["Zoe", "A", "in", "oslo"] * 7, ["oslo"], [], ["\u200b", "zoe"], ["cab", "dé"] * 3]
    found = Tagger(lookup, tokenizer, TAGS, max_length).tag_words(sentences)
    of_word = {"Zoe": "B-PER", "zoe": "B-PER", "A": "I-PER", "oslo": "B-LOC"}
    assert found == [[of_word.get(word, "O") for word in words] for words in sentences]


@pytest.mark.parametrize("max_length", [4, 5, 12, None])
def test_windows(max_length, tokenizer):
    """Each piece once, in a window where it has at least a quarter of the room on both sides, but for a text's ends."""
    texts = ["zoe " * count for count in (0, 1, 2, 3, 7, 30)]
    rows = TextWindows(tokenizer, max_length)(texts)
    room = (max_length or 32) - 2
    width = rows.token_ids.shape[1]
    assert width <= room + 2
    for text, (places, starts) in enumerate(zip(rows.places.to_list(), rows.starts.to_list(), strict=True)):
        assert len(places) == len(starts) == texts[text].count("zoe")
        for index, place in enumerate(places):
            row, column = divmod(place, width)
            size = int((rows.token_ids[row].numpy() != 0).sum()) - 2
            assert rows.texts[row] == text and rows.token_ids[row, column] == TOKENS.index("zoe")
            before, after = column - 1, size - column
            assert before >= min(index, room // 4) and after >= min(len(places) - 1 - index, (room - 1) // 4)
    assert set(rows.texts.numpy()) == set(range(6))


def test_white_space_is_read_as_in_training():
    """Byte pairs make pieces of it, which belong to no word."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *byte_signs(), "ĠO"]
    tag = Tagger(
        Lookup({pieces.index(piece): "B-LOC" for piece in ("O", "ĠO")}, len(pieces)),
        BytePairTokenizer(pieces, ["Ġ O"]),
        TAGS,
    )
    for text in ("in Oslo", "in\nOslo", " in\t \u3000\n Oslo\n", "Oslo\u00a0in"):
        (found,) = tag([text])[0]
        assert found.text == "Oslo" == text[found.start : found.end]


@pytest.mark.parametrize(
    "text, words",
    [
        ("Oslo's mayor", ["Oslo", "'s", "mayor"]),
        ("(IT’S James', 's)", ["(", "IT", "’S", "James", "'", ",", "'s", ")"]),
        ("don't o's's a' s", ["don't", "o's", "'s", "a", "'", "s"]),
        ("a' s", ["a", "'", "s"]),
    ],
)
def test_possessives(text, words):
    starts, ends = (side.to_list()[0] for side in find_words([text, "s"])[0:2])
    assert [text[first:last] for first, last in zip(starts, ends, strict=True)] == words
    assert find_words(["a'", "s"])[1].to_list() == [[1, 2], [1]]


def test_words_are_those_of_conll():
    for text in ("The U.S.-based (Foo) said: «No.»", "don't!! -- 3.5%", "東京に a", "", " \u3000", "a", "..."):
        starts, ends = (side.to_list()[0] for side in find_words([text]))
        found = [text[first:last] for first, last in zip(starts, ends, strict=True)]
        oracle = []
        for chunk in text.split():
            head = re.match(r"[^\w]*", chunk)[0]
            tail = re.search(r"[^\w]*$", chunk[len(head) :])[0]
            core = chunk[len(head) : len(chunk) - len(tail)]
            oracle += [*head, *filter(None, re.split(r"([\u3040-\u30ff\u4e00-\u9fff])", core)), *tail]
        assert found == oracle


def test_a_batch_of_texts_of_other_lengths(tokenizer):
    """Padding changes nothing."""
    keras.utils.set_random_seed(0)
    shape = dict(hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=2, initializer_range=0.5)
    model = TokenClassifier(Bert(len(TOKENS), **shape, pooler=False), len(TAGS))
    tagger = Tagger(model, tokenizer, TAGS, 12)
    texts = ["zoe in oslo", "oslo " * 40, "a", "", "zoe b c, a d e o s " * 3]
    together = tagger(texts)
    for text, found in zip(texts, together, strict=True):
        (alone,) = tagger([text])
        assert [(e.kind, e.start, e.end) for e in found] == [(e.kind, e.start, e.end) for e in alone]


def test_parts_of_speech(tokenizer):
    names = ["ADP", "NOUN", "PUNCT"]

    class Model(keras.Model):
        def call(self, ids):
            return tf.one_hot(tf.where(ids == TOKENS.index("in"), 0, 1), 3)

    found = Tagger(Model(), tokenizer, names)(["in Oslo zoe"])[0]
    assert [(entity.kind, entity.text) for entity in found] == [("ADP", "in"), ("NOUN", "Oslo"), ("NOUN", "zoe")]


def test_the_saved_model_finds_the_same(tokenizer, tmp_path):
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pairs = BytePairTokenizer([*specials, *"zoeslaĠ"], [])
    for given, name in ((tokenizer, "words"), (pairs, "bytes")):
        model = Lookup(
            {given.vocabulary.index("z"): "B-PER", given.vocabulary.index("a"): "I-PER"}, len(given.vocabulary)
        )
        model(np.ones((1, 2), "int32"))
        path = export_tagger(model, given, TAGS, tmp_path / name, max_length=8)
        call = tf.saved_model.load(path).signatures["serving_default"]
        texts = ["zé, za", "", "🙂 z a 🙂 z"]
        found = {key: value.numpy() for key, value in call(text=tf.constant(texts)).items()}
        for row, expected in enumerate(Tagger(model, given, TAGS, 8)(texts)):
            count = len(expected)
            assert [
                Entity(kind.decode(), start, end, text.decode(), score)
                for kind, start, end, text, score in zip(
                    *(found[key][row][:count].tolist() for key in ("kinds", "starts", "ends", "entities", "scores")),
                    strict=True,
                )
            ] == expected
            assert set(found["kinds"][row][count:]) <= {b""} and set(found["starts"][row][count:]) <= {-1}
        assert any(found["kinds"].ravel() == b"PER")
        assert call(text=tf.constant([], tf.string))["kinds"].shape[0] == 0


def test_joined_words_are_found_again():
    words = [["Zoë", "🙂", "x"], [], ["y"]]
    texts, starts, ends = join_words(words)
    for sentence, text, *spans in zip(words, texts.numpy(), starts.to_list(), ends.to_list(), strict=True):
        assert [text.decode()[first:last] for first, last in zip(*spans, strict=True)] == sentence
    assert entities_of(["O"]) == []
