"""Classifiers of pairs of texts that a tokenizer joins in one sequence."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.serving import Classifier, export_classifier, export_regressor
from keras_headattn.serving._warmup import read_warmup
from keras_headattn.text import BytePairTokenizer, WordPieceTokenizer

CLASSES = ["no", "yes", "maybe"]
TEXTS = ["a dog ran", "", "cats " * 30, "a"]
SECOND = ["cats", "a dog", "dog " * 9, ""]


class Tokens(keras.Model):
    """Mean over real tokens of embeddings of token and segment."""

    def __init__(self, tokenizer, num_outputs=3):
        super().__init__()
        keras.utils.set_random_seed(3)
        self.pad_id = tokenizer.pad_id
        self.tokens = keras.layers.Embedding(tokenizer.vocabulary_size, num_outputs)
        self.segments = keras.layers.Embedding(2, num_outputs)

    def call(self, inputs):
        if not isinstance(inputs, dict):
            inputs = {"token_ids": inputs, "segment_ids": keras.ops.zeros_like(inputs)}
        real = keras.ops.cast(inputs["token_ids"] != self.pad_id, "float32")[..., None]
        x = self.tokens(inputs["token_ids"]) + 5 * self.segments(inputs["segment_ids"])
        return 9 * keras.ops.sum(x * real, axis=1) / keras.ops.sum(real, axis=1)


def word_pieces():
    return WordPieceTokenizer(["[UNK]", "[CLS]", "[SEP]", "a", "dog", "cat", "##s", "[PAD]"])


def byte_pairs():
    letters = [*"adogcts", "Ġ"]
    return BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *letters, "do", "Ġdo", "Ġdog"], ["d o", "Ġ do", "Ġdo g"])


@pytest.fixture(scope="module", params=[word_pieces, byte_pairs])
def tokenizer(request):
    return request.param()


def expected(model, tokenizer, *sides):
    """One pair at a time, without padding."""
    rows = [tokenizer.with_max_length(20)(*[[text] for text in pair]) for pair in zip(*sides, strict=True)]
    return np.concatenate([keras.ops.softmax(model(row)) for row in rows])


@pytest.mark.parametrize("sides", [(TEXTS,), (TEXTS, SECOND)])
def test_classifier_and_export(tokenizer, tmp_path, sides):
    model = Tokens(tokenizer)
    probabilities = expected(model, tokenizer, *sides)
    classify = Classifier(model, tokenizer, CLASSES, max_length=20, batch_size=3)
    np.testing.assert_allclose(classify.probabilities(*sides), probabilities, rtol=1e-4)

    path = export_classifier(model, tokenizer, CLASSES, tmp_path, max_length=20, pairs=len(sides) == 2)
    signature = tf.saved_model.load(path).signatures["serving_default"]
    names = ("text", "second_text")[: len(sides)]
    found = signature(**{name: tf.constant(side) for name, side in zip(names, sides, strict=True)})
    np.testing.assert_allclose(found["scores"], -np.sort(-probabilities), rtol=1e-4)
    assert [row[0].decode() for row in found["classes"].numpy()] == [CLASSES[row.argmax()] for row in probabilities]
    assert signature(**{name: tf.constant([], tf.string) for name in names})["scores"].shape == (0, 3)

    requests = [inputs for _, inputs in read_warmup(path)]
    assert [len(request["text"]) for request in requests] == [1, 8] * 2
    rows = [tokenizer(*[request[name][:1].astype(str) for name in names]) for request in requests[::2]]
    lengths = [(row["token_ids"] if isinstance(row, dict) else row).shape[1] for row in rows]
    assert lengths[0] <= 16 < lengths[1]


def test_numbers_of_pairs(tokenizer, tmp_path):
    model = Tokens(tokenizer, num_outputs=1)
    path = export_regressor(model, tokenizer, tmp_path, pairs=True, warmup_batch_sizes=())
    rate = tf.saved_model.load(path).signatures["serving_default"]
    found = rate(text=tf.constant(TEXTS), second_text=tf.constant(SECOND))["values"]
    for row, pair in zip(found, zip(TEXTS, SECOND, strict=True), strict=True):
        np.testing.assert_allclose(row, model(tokenizer(*[[text] for text in pair]))[0, 0], rtol=1e-4)
