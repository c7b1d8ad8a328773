"""Scores of words from attention and gradients, against slow code, and what must hold of them."""

import keras
import numpy as np
import pytest

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import Bert, BiLSTMEncoder, EncoderClassifier, SentenceClassifier, SentencePairClassifier
from keras_headattn.serving import Classifier, WordScores
from keras_headattn.text import BytePairTokenizer, WordPieceTokenizer, WordTokenizer
from tests.refusals import refused

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "bad", "film", "##s", "##y", "not", "good", ","]
TEXTS = ["a bad film", "films , not good films", "", "filmy", "not a bad film , a good film"]
SECOND = ["good", "", "not bad", "a films filmy", "a bad film"]
NAMES = ["x", "y", "z"]


@pytest.fixture(scope="module")
def bert():
    """A BERT that reads at most 9 ids: the last text and some pairs are cut."""
    keras.utils.set_random_seed(0)
    encoder = Bert(12, 16, 16, num_layers=2, num_heads=2, max_length=12, attention="evolving")
    model = EncoderClassifier(encoder, 3)
    model.build()
    for weight in model.trainable_weights:
        weight.assign(3 * np.random.default_rng(0).normal(size=weight.shape) / np.sqrt(weight.shape[0]))
    return WordScores(Classifier(model, WordPieceTokenizer(PIECES), NAMES, max_length=9), batch_size=4)


@pytest.fixture(scope="module")
def pooled():
    keras.utils.set_random_seed(0)
    encoder, tokenizer = BiLSTMEncoder(8, 6, 5), WordTokenizer(["a", "bad", "film", "not", "good", "films"])
    single = SentenceClassifier(encoder, 3, SelfAttentivePooling(3, 4), mlp_dim=6)
    pair = SentencePairClassifier(encoder, 1, SelfAttentivePooling(2, 4), factor_dim=3, mlp_dim=6)
    for model in (single, pair):
        model.build()
    both = Classifier(pair, tokenizer, ["number"], max_length=6, activation="linear")
    return WordScores(Classifier(single, tokenizer, NAMES, max_length=6)), WordScores(both)


def words_by_hand(text):
    """The number of the word of each piece, as WordPiece has them here: only `films` and `filmy` have two."""
    return [number for number, word in enumerate(text.split()) for _ in range(2 if word[:4] == "film" < word else 1)]


def test_attention_of_an_encoder(bert):
    model, tokenizer = bert.classifier.model, bert.classifier.tokenizer
    for kind in ("cls", "received"):
        found = bert.attention(TEXTS, kind=kind, layer=0)
        for text, scores in zip(TEXTS, found, strict=True):
            ids = tokenizer([text])
            _, out = model(ids, return_intermediates=True)
            weights = out["block_0/attention"]["weights"].numpy()[0].mean(axis=0)
            tokens = weights[0] if kind == "cls" else weights.mean(axis=0)
            expected = np.zeros(len(text.split()))
            for word, weight in zip(words_by_hand(text), tokens[1:-1], strict=False):
                expected[word] += weight
            np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert found[4][-1] == 0  # cut
    assert bert.words_read(TEXTS) == [[3, 5, 0, 1, 7]]
    other = bert.attention(TEXTS, kind="cls")
    assert np.abs(other[0] - bert.attention(TEXTS, kind="cls", layer=1)[0]).max() == 0


def log_odds(scores, texts, second_texts, classes):
    p = scores.classifier.probabilities(texts, second_texts).astype("float64")[np.arange(len(texts)), classes]
    return np.log(p) - np.log1p(-p)


def test_gradients(bert):
    """What slightly larger vectors add, of single texts and of pairs; special ids are of no word."""
    classes = [0, 1, 2, 0, 1]
    embedding = bert.classifier.model.encoder.token_embedding
    kept = embedding.get_weights()
    larger = kept[0].copy()
    larger[4:] *= 1.001
    for second in (None, SECOND):
        found = bert.gradients(TEXTS, second, classes)
        full = log_odds(bert, TEXTS, second, classes)
        try:
            embedding.set_weights([larger])
            more = log_odds(bert, TEXTS, second, classes)
        finally:
            embedding.set_weights(kept)
        np.testing.assert_allclose([row.sum() for row in found], (more - full) / 0.001, atol=0.02, rtol=0.02)
    sizes = [len(f"{one} {other}".split()) for one, other in zip(TEXTS, SECOND, strict=True)]
    assert [len(row) for row in found] == sizes
    read = bert.words_read(TEXTS, SECOND)
    assert read[0][2:4] == [0, 1] and read[1][:3] == [1, 0, 2] and read[0][4] + read[1][4] < sizes[4]
    likeliest = bert.classifier.probabilities(TEXTS).argmax(axis=1)
    np.testing.assert_array_equal(bert.gradients(TEXTS)[0], bert.gradients(TEXTS, classes=likeliest)[0])


def test_integrated_gradients_are_complete(pooled):
    """Their sum is the log odds less those without vectors; numbers have the number itself."""
    single, pair = pooled
    classes = [2, 1, 0, 0, 1]
    embedding = single.classifier.model.encoder.embedding
    # Texts of which every id is of a word: an empty one has an id of no word.
    texts, second = TEXTS[:2] + ["film"] + TEXTS[3:4] + ["not a bad film"], SECOND[:1] + ["a"] + SECOND[2:]
    found = single.gradients(texts, classes=classes, steps=100), pair.gradients(texts, second, steps=100)

    def outputs():
        return log_odds(single, texts, None, classes), pair.classifier.probabilities(texts, second)[:, 0]

    kept = embedding.get_weights()
    full = outputs()
    try:
        embedding.set_weights([np.zeros_like(kept[0])])
        empty = outputs()
    finally:
        embedding.set_weights(kept)
    for rows, before, after in zip(found, empty, full, strict=True):
        np.testing.assert_allclose([row.sum() for row in rows], after - before, atol=2e-3)


def test_pooling(pooled):
    single, pair = pooled
    found = single.attention(TEXTS)
    _, out = single.classifier.model.encode(single.classifier.tokenizer(TEXTS[:1]), return_intermediates=True)
    np.testing.assert_allclose(found[0], out["pooling"]["weights"].numpy()[0].mean(axis=0), atol=1e-6)
    assert [len(row) for row in found] == [len(text.split()) for text in TEXTS] and found[4][6:].sum() == 0
    assert single.words_read(TEXTS + ["a\u200b b"])[0][-2:] == [6, 2]
    done = []
    both = pair.attention(TEXTS, SECOND, progress=done.append)
    assert done == [5]
    np.testing.assert_allclose(both[0].sum(), 2, atol=1e-5)  # 1 for each text


def test_byte_pairs():
    """Byte pairs begin with the space before a word, and two end symbols stand between texts."""
    letters = [chr(number) for number in range(97, 123)]
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "Ġ", *letters, "Ġf"])}
    tokenizer = BytePairTokenizer(vocabulary, ["Ġ f"])
    encoder = Bert(len(vocabulary), 8, 8, 1, 2, num_segments=0, pad_id=1, skip_padding=True, pooler=False)
    model = EncoderClassifier(encoder, 2, kind="roberta")
    scores = WordScores(Classifier(model, tokenizer, ["x", "y"]))
    assert scores.words_read(["a few films", ""], ["fee", "f f"]) == [[3, 0], [1, 2]]
    found = scores.attention(["a few films", ""], ["fee", "f f"], kind="cls")
    assert [len(row) for row in found] == [4, 2] and all((row > 0).all() for row in found)


def test_errors(bert, pooled):
    with refused("kind='pooling'", "2 other"):
        bert.attention(TEXTS)
    with refused("2 attention layers", "kind='cls', layer=2"):
        bert.attention(TEXTS, kind="cls", layer=2)
    with refused("kind", "'mean'"):
        bert.attention(TEXTS, kind="mean")
    with refused("classes", [1]):
        bert.gradients(TEXTS, classes=[1])
    model = keras.Sequential([keras.layers.Lambda(lambda ids: keras.ops.one_hot(ids, 2)[:, 0])])
    with refused("keras.layers.Embedding", "Sequential"):
        WordScores(Classifier(model, WordTokenizer(["a"]), ["x", "y"])).gradients(["a"])
    wrong = WordScores(pooled[1].classifier, embedding=keras.layers.Embedding(8, 6))
    with refused("embedding", "called 0 times"):
        wrong.gradients(["a"], ["a"])
    assert bert.gradients([]) == bert.attention([], kind="cls") == []


def test_pieces_of_white_space_belong_to_the_word_after_it():
    """Attention is nearly even, so that a word's score is the number of its pieces."""
    signs = [*"inOslo", "Ġ", "Ċ"]
    tokenizer = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *dict.fromkeys(signs)], [])
    keras.utils.set_random_seed(0)
    model = EncoderClassifier(Bert(12, 16, 32, 1, 2, num_segments=0, pad_id=1, pooler=False), 2)
    model.build()
    for prefixed in (tokenizer, BytePairTokenizer.from_config(tokenizer.get_config() | {"add_prefix_space": True})):
        scores = WordScores(Classifier(model, prefixed, ["n", "p"]))
        for text, counts in (
            ("in Oslo Oslo", [2, 5, 5]),
            ("in  Oslo\n\nOslo", [2, 6, 6]),
            ("\nin Oslo \n", [3, 5 + 2]),
        ):
            (found,) = scores.attention([text], kind="cls")
            begin = prefixed.add_prefix_space
            counts = np.array([counts[0] + begin, *counts[1:]])
            np.testing.assert_allclose(found, counts / (counts.sum() + 2), atol=0.02)
