import keras
import numpy as np
import pytest

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier
from keras_headattn.serving import Classifier
from keras_headattn.text import WordTokenizer

CLASSES = ["gut", "schön", "übel"]
TEXTS = ["two cats", "a dog and two cats", "", "dog"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(["two", "cats", "dog"])


def make_model(tokenizer, kind=SentenceClassifier, **options):
    keras.utils.set_random_seed(2)
    encoder, pooling = BiLSTMEncoder(tokenizer.vocabulary_size, 4, 3), SelfAttentivePooling(2, 3)
    model = kind(encoder, 3, pooling, mlp_dim=5, **options)
    model.build()
    return model


def softmax(logits):
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits))


def test_texts(tokenizer):
    model = make_model(tokenizer)
    classify, done = Classifier(model, tokenizer, CLASSES, max_length=3, batch_size=2), []
    expected = np.concatenate([softmax(model(tokenizer([text])[:, :3])) for text in TEXTS])
    np.testing.assert_allclose(classify.probabilities(TEXTS, progress=done.append), expected, rtol=1e-4)
    assert done == [2, 4]
    for found, row in zip(classify(TEXTS), expected, strict=True):
        order = np.argsort(-row)
        assert found.classes == tuple(CLASSES[label] for label in order)
        np.testing.assert_allclose(found.scores, row[order], rtol=1e-4)
        assert (found.label, found.score) == (found.classes[0], found.scores[0])
    assert classify([]) == [] and classify.probabilities([]).shape == (0, 3)


def test_texts_that_are_not_cut(tokenizer):
    model = make_model(tokenizer)
    classify = Classifier(model, tokenizer, CLASSES, top=1)
    texts = ["dog " * 20, "two"]
    expected = np.concatenate([softmax(model(tokenizer([text]))) for text in texts])
    np.testing.assert_allclose(classify.probabilities(texts), expected, rtol=1e-4)
    assert [found.classes for found in classify(texts)] == [(CLASSES[row.argmax()],) for row in expected]


def test_pairs(tokenizer):
    model = make_model(tokenizer, SentencePairClassifier, factor_dim=3)
    classify = Classifier(model, tokenizer, CLASSES, max_length=4)
    expected = softmax(model((tokenizer(TEXTS)[:, :4], tokenizer(TEXTS[::-1])[:, :4])))
    np.testing.assert_allclose(classify.probabilities(TEXTS, TEXTS[::-1]), expected, rtol=1e-4)
