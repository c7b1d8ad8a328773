import os

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.text import SentencePieceTokenizer, train_sentencepiece
from tests.refusals import refused

SENTENCES = [
    "the cat sat on the mat",
    "a dog ran after the cat and the other cat",
    "no cat sat still while the dogs were there",
    "ein schöner Hund schläft",
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def model_path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / f"{request.param}.model"
    return train_sentencepiece(SENTENCES, path, 40, request.param)


def texts(tensor):
    return [text.decode("utf-8") for text in np.asarray(tensor)]


def test_ids_are_sentencepieces_own(model_path):
    tokenizer = SentencePieceTokenizer(model_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model_path))
    ids = tokenizer(SENTENCES)
    assert ids.dtype == "int32"
    for row, sentence in zip(ids.numpy(), SENTENCES, strict=True):
        expected = processor.encode(sentence) + [tokenizer.eos_id]
        assert row[: len(expected)].tolist() == expected
        assert not row[len(expected) :].any()
    assert texts(tokenizer.detokenize(ids)) == SENTENCES


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_graph_and_encode_agree_on_any_text(model_path, data):
    characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\ufdd0 aA")
    sentences = data.draw(st.lists(st.text(characters, max_size=20), min_size=1, max_size=4))
    length = data.draw(st.none() | st.integers(3, 12))
    bos, eos = data.draw(st.booleans()), data.draw(st.booleans())
    lowercase = data.draw(st.booleans())
    tokenizer = SentencePieceTokenizer(model_path, length, add_bos=bos, add_eos=eos, lowercase=lowercase)
    in_graph = tokenizer(tf.constant(sentences)).numpy()
    lists = tokenizer.encode(sentences)
    assert in_graph.shape == (len(sentences), length or max(map(len, lists)))
    for row, ids in zip(in_graph, lists, strict=True):
        assert ids.dtype == "int32"
        assert row[: len(ids)].tolist() == ids.tolist()
        assert not row[len(ids) :].any()


def test_sequence_length_cuts_but_keeps_the_ends(model_path):
    tokenizer = SentencePieceTokenizer(model_path, sequence_length=5, add_bos=True)
    ids = tokenizer([SENTENCES[0], ""]).numpy()
    full = SentencePieceTokenizer(model_path).encode(SENTENCES[:1])[0]
    assert ids.tolist() == [[2, *full[:3], 3], [2, 3, 0, 0, 0]]


def test_detokenize_stops_at_the_first_end(model_path):
    tokenizer = SentencePieceTokenizer(model_path)
    cat, dog = (tokenizer.encode([word])[0][:-1].tolist() for word in ("cat", "dog"))
    row = [2, *cat, 3, *dog, 3, 0]
    assert texts(tokenizer.detokenize([row, [0] * len(row), [3] * len(row)])) == ["cat", "", ""]


def test_attributes(model_path):
    tokenizer = SentencePieceTokenizer(str(model_path))
    assert tokenizer.vocabulary_size == 40
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert [tokenizer.id_to_token(i) for i in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_config_needs_no_file(model_path):
    tokenizer = SentencePieceTokenizer(model_path.read_bytes(), sequence_length=9, add_bos=True, name="pieces")
    copy = SentencePieceTokenizer.from_config(tokenizer.get_config())
    assert copy.get_config() == tokenizer.get_config()
    np.testing.assert_array_equal(copy(SENTENCES), tokenizer(SENTENCES))


def text_model(model_path, **kwargs):
    strings = keras.Input((), dtype="string")
    ids = SentencePieceTokenizer(model_path, **kwargs)(strings)
    return keras.Model(strings, keras.layers.Embedding(40, 3)(ids))


def test_inside_a_saved_keras_model(model_path, tmp_path):
    model = text_model(model_path, sequence_length=7)
    assert model.output_shape == (None, 7, 3)
    strings = tf.constant(SENTENCES)
    expected = model.predict(strings, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(strings, verbose=0), expected)


def test_in_a_tf_data_pipeline(model_path):
    tokenizer = SentencePieceTokenizer(model_path, sequence_length=6)
    dataset = tf.data.Dataset.from_tensor_slices(SENTENCES).batch(2).map(tokenizer)
    assert dataset.element_spec.shape.as_list() == [None, 6]
    np.testing.assert_array_equal(np.concatenate(list(dataset)), tokenizer(SENTENCES))


def test_saved_model_serves_text(tmp_path):
    """`tests/serving/test_translator_exports.py` does so in a process without this library."""
    tokenizer = SentencePieceTokenizer(train_sentencepiece(SENTENCES, tmp_path / "a.model", 40))
    served = tf.Module()
    served.tokenizer = tokenizer
    served.encode = tf.function(tokenizer.call, input_signature=[tf.TensorSpec([None], tf.string)])
    served.decode = tf.function(tokenizer.detokenize, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    tf.saved_model.save(served, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    ids = loaded.encode(tf.constant(["the cat sat", ""]))
    assert ids.numpy().tolist() == tokenizer(["the cat sat", ""]).numpy().tolist()
    assert [text.decode() for text in loaded.decode(ids).numpy()] == ["the cat sat", ""]


def test_column_of_strings(model_path):
    """As `keras.layers.TextVectorization` takes it."""
    tokenizer = SentencePieceTokenizer(model_path)
    strings = keras.Input((1,), dtype="string")
    ids = keras.Model(strings, tokenizer(strings))(tf.constant([[sentence] for sentence in SENTENCES]))
    np.testing.assert_array_equal(ids, tokenizer(SENTENCES))


def test_bad_protos(model_path, tmp_path):
    for content in (b"", b"junk", model_path.read_bytes()[:200]):
        (tmp_path / "a.model").write_bytes(content)
        with refused("a.model", f"{len(content)} bytes"):
            SentencePieceTokenizer(tmp_path / "a.model")
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with refused("proto", place, FileNotFoundError):
            SentencePieceTokenizer(place)


def test_added_tokens(model_path):
    plain = SentencePieceTokenizer(model_path, num_sentinels=2)
    options = ["[E1]", {"content": "[L]", "lstrip": True, "rstrip": True}]
    added = SentencePieceTokenizer(model_path, num_sentinels=2, added_tokens=options)
    assert added.vocabulary_size == 44 and added.sentinel_id(0) == 41
    assert [added.id_to_token(i) for i in (41, 42, 43)] == ["<extra_id_0>", "[E1]", "[L]"]
    cat, dog = (plain.encode([text])[0][:-1].tolist() for text in ("a cat", "a dog"))
    for text, expected in {
        "a cat [E1]a dog": [*cat, 42, *dog],
        "a cat  [L]\t[E1]": [*cat, 43, 42],
        "": [],
        "a dog": dog,
    }.items():
        assert added.encode([text])[0].tolist() == [*expected, 3] == added([text]).numpy()[0].tolist()
    assert texts(added.detokenize(added(["a cat[E1] a dog", "a[L]"]))) == ["a cat[E1] a dog", "a[L]"]
    again = SentencePieceTokenizer.from_config(added.get_config())
    assert again.get_config() == added.get_config()


def test_bytes_beside_added_tokens(tmp_path):
    sentences = ["the cat sat", "a dog ran", "the dog sat"] * 9
    ids = dict(pad_id=0, unk_id=1, bos_id=2, eos_id=3, byte_fallback=True, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(tmp_path / "m"), vocab_size=290, model_type="bpe", **ids
    )
    tokenizer = SentencePieceTokenizer(tmp_path / "m.model", added_tokens=["<sep>"])
    assert texts(tokenizer.detokenize(tokenizer(["the \u732b \xe9<sep> a cat"]))) == ["the \u732b \xe9<sep> a cat"]


def test_model_without_padding_is_refused(shared_data):
    with refused("proto", "without padding"):
        SentencePieceTokenizer(shared_data / "sentencepiece" / "test_model.model")


def test_model_with_other_ids(shared_data):
    path = shared_data / "tokenizers_trax" / "sentencepiece.model"
    tokenizer = SentencePieceTokenizer(path)
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2)
    assert texts(tokenizer.detokenize(tokenizer(["This is a test."]))) == ["This is a test."]
    with refused("proto", "without begin of sentence"):
        SentencePieceTokenizer(path, add_bos=True)


def test_survives_a_new_random_seed(model_path):
    # Keras's function makes TensorFlow number its resources anew.
    tokenizer = SentencePieceTokenizer(model_path)
    before = tokenizer(["a cat"]).numpy()
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(tokenizer(["a cat"]), before)


@pytest.mark.parametrize("lowercase", [False, True])
def test_text_goes_on_after_a_nul(model_path, lowercase):
    tokenizer = SentencePieceTokenizer(model_path, add_eos=False, lowercase=lowercase)
    the, cat = (tokenizer.encode([word])[0].tolist() for word in ("the", "cat"))
    for ids in (tokenizer.encode(["the\0 cat"])[0], tokenizer(["the\0 cat"])[0].numpy()):
        assert ids.tolist() == [*the, tokenizer.unk_id, *cat]


def test_lower_case_in_the_graph_and_outside(tmp_path):
    sentences = ["ÄRGER im Straßenbahnhof", "Der ÉLAN der Ölpreise"]
    path = train_sentencepiece(map(str.lower, sentences), tmp_path / "lower.model", 40)
    tokenizer = SentencePieceTokenizer(path, lowercase=True)
    ids = tokenizer(sentences)
    assert texts(tokenizer.detokenize(ids)) == [sentence.lower() for sentence in sentences]
    for row, encoded in zip(ids.numpy(), tokenizer.encode(sentences), strict=True):
        np.testing.assert_array_equal(row[row != 0], encoded)
    again = SentencePieceTokenizer.from_config(tokenizer.get_config())
    np.testing.assert_array_equal(again(sentences), ids)


def test_max_length_cuts_without_padding(model_path):
    tokenizer = SentencePieceTokenizer(model_path, max_length=5)
    full = SentencePieceTokenizer(model_path).encode(SENTENCES[:1])[0]
    assert tokenizer([SENTENCES[0], ""]).numpy().tolist() == [[*full[:4], 3], [3, 0, 0, 0, 0]]
    assert tokenizer.encode(SENTENCES[:1])[0].tolist() == [*full[:4], 3]
    assert tokenizer([""]).shape == (1, 1)


def test_sentinels(model_path):
    tokenizer = SentencePieceTokenizer(model_path, num_sentinels=2)
    assert tokenizer.vocabulary_size == 42
    assert [tokenizer.sentinel_id(number) for number in (0, 1)] == [41, 40]
    assert [tokenizer.id_to_token(i) for i in (40, 41)] == ["<extra_id_1>", "<extra_id_0>"]
    ids = tokenizer.encode(["a cat"])[0].tolist()
    table = [*ids[:-1], 41, 40, 44, 3]  # the table of a model may have more rows than that
    assert texts(tokenizer.detokenize([table])) == ["a cat"]
    assert max(tokenizer.encode(["<extra_id_0>"])[0]) < 40
    copy = SentencePieceTokenizer.from_config(tokenizer.get_config())
    assert copy.get_config() == tokenizer.get_config()


def test_t5(shared_data):
    """The layout of T5: padding 0, end symbol 1, unknown 2, no begin symbol, 32,000 pieces and 100 sentinels."""
    path = shared_data / "tokenizers_trax" / "sentencepiece.model"
    tokenizer = SentencePieceTokenizer(path, num_sentinels=100)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert tokenizer.vocabulary_size == 32_100 and tokenizer.sentinel_id(0) == 32_099
    sentences = ["sst2 sentence: a gorgeous, witty film", "", "  It's 3.5 km² …", "中 é <extra_id_0> </s>"]
    for row, sentence in zip(tokenizer(sentences).numpy(), sentences, strict=True):
        expected = [*processor.encode(sentence), 1]
        assert row[: len(expected)].tolist() == expected and not row[len(expected) :].any()
