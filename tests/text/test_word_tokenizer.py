import keras
import pytest
import tensorflow as tf

from keras_headattn.text import WordTokenizer, learn_words
from tests.refusals import refused

WORDS = ["cat", "n't", "does", "ä", "3.5", "'s"]


def texts(sentence, **options):
    tokenizer = WordTokenizer(WORDS, **options)
    return " ".join(tokenizer.id_to_token(i) for i in tokenizer.encode([sentence])[0])


@pytest.mark.parametrize(
    "sentence, expected",
    [
        ("The CAT doesn't.", "<unk> cat does n't <unk>"),
        ("Ä cat\N{RIGHT SINGLE QUOTATION MARK}s 3.5", "ä cat 's 3.5"),
        ("cat\N{NO-BREAK SPACE}cat\x85cat\u2028cat", "cat cat cat cat"),
        ("'self cat'", "<unk> <unk> cat <unk>"),
        ("3.", "<unk> <unk>"),
        ("", "<unk>"),
        (" \t ", "<unk>"),
        ("Cat\0does\0\0n't", "cat does n't"),
        ("cat \ufeffcat", "cat cat"),
    ],
)
def test_words(sentence, expected):
    assert texts(sentence) == expected


def test_case_may_be_kept():
    assert texts("Cat cat", lowercase=False) == "<unk> cat"


def test_graph_and_encode_agree():
    tokenizer = WordTokenizer(WORDS)
    sentences = ["a cat", "", "does n't , 's", "cat"]
    in_graph = tf.function(tokenizer)(tf.constant(sentences)).numpy()
    assert in_graph.shape == (4, 4) and in_graph.dtype == "int32"
    for row, ids in zip(in_graph, tokenizer.encode(sentences), strict=True):
        assert row[: len(ids)].tolist() == ids.tolist() and not row[len(ids) :].any()
    assert tokenizer.encode([]) == [] and tokenizer(tf.constant([], tf.string)).shape[0] == 0


def test_frequent_words_come_first():
    words = learn_words(["b a a", "B c", "c d"], min_count=2)
    assert words == ["a", "b", "c"]
    assert learn_words(["b a a", "B c", "c d"], vocabulary_size=4) == ["a", "b"]
    assert learn_words(iter(["b B"]), lowercase=False) == ["B", "b"]


def test_saved_with_a_model(tmp_path):
    """As a SavedModel and in a file of Keras; `tests/serving/test_exports.py` runs SavedModels without this library."""
    strings = keras.Input((), dtype="string")
    tokenizer = WordTokenizer(WORDS)
    keras.Model(strings, tokenizer(strings)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[-1](["a cat"]).numpy().tolist() == [[1, 2]]
    (tmp_path / "words.txt").write_text("\n".join(WORDS), encoding="utf-8")
    module = tf.Module()
    module.tokenizer = WordTokenizer(tmp_path / "words.txt")
    signature = tf.function(lambda text: {"ids": module.tokenizer(text)}, autograph=False)
    keras.utils.set_random_seed(0)  # resources made later must not take its table's place
    other = WordTokenizer(["other"])
    tf.saved_model.save(
        module, str(tmp_path / "saved"), signature.get_concrete_function(tf.TensorSpec((None,), tf.string, "text"))
    )
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    assert served(text=tf.constant(["a CAT", ""]))["ids"].numpy().tolist() == [[1, 2], [1, 0]]
    assert other(["other"]).numpy().tolist() == [[2]]


@pytest.mark.parametrize("words", ["", "cat\n\ndog", "cat\ncat"])
def test_damaged_files(tmp_path, words):
    (tmp_path / "words.txt").write_text(words)
    with refused("vocabulary", tmp_path / "words.txt"):
        WordTokenizer(tmp_path / "words.txt")
