"""T5 with every attention; `test_t5_hugging_face.py` compares its numbers with those of another library."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.decoding import Searcher
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import T5
from keras_headattn.regularizers import Disagreement
from keras_headattn.serving import export_translator
from keras_headattn.text import SentencePieceTokenizer, train_sentencepiece
from tests.models.small import array, check_close, copy_weights, dropout_layers, each_path, more_padding, randomize

VOCABULARY, LENGTH, TOLERANCE = 13, 6, 5e-6
EVOLVING = layers.EvolvingAttention(3, 4, alpha=0.3, beta=0.4)
NEWER = dict(activation="gelu_tanh", gated=True, tie_output=False)


def make(weights_seed=1, **arguments):
    sizes = dict(vocabulary_size=VOCABULARY, hidden_dim=12, intermediate_dim=10, num_layers=2, num_heads=3, key_dim=5)
    model = T5(**{**sizes, **arguments})
    model.build()
    return randomize(model, weights_seed)


def sentences(seed=0):
    """Row 0 ends with two padding tokens in its source, one in its target; targets begin with id 0."""
    rng = np.random.default_rng(seed)
    inputs = {name: rng.integers(1, VOCABULARY, (2, size)) for name, size in (("source", 5), ("target", LENGTH))}
    inputs["source"][0, -2:] = inputs["target"][0, -1:] = inputs["target"][:, 0] = 0
    return {name: ids.astype("int32") for name, ids in inputs.items()}


# ------------------------------------------------------------------------------------------ sizes and form


def count(size, **arguments):
    """Weights of a whole model, from those of small ones: of one block a stack and of two, of eight token ids."""
    whole = T5.from_size(size)
    counts = []
    for number in (1, 2):
        model = T5.from_size(size, num_layers=number, **{"vocabulary_size": 8, **arguments})
        model.build()
        counts.append(model.count_params())
    tables = 1 if model.tie_output else 2
    of_ids = tables * model.hidden_dim * (whole.vocabulary_size - 8)
    return counts[0] + (whole.num_layers - 1) * (counts[1] - counts[0]) + of_ids


def test_published_sizes():
    assert count("t5_base") == 222_903_552
    assert count("t5_small") == 60_506_624
    assert count("t5_v1_1_small") == 76_961_152


def test_convolutions_of_the_encoder():
    """Wang et al. 2021: 3x3 convolutions of 12 heads, in all blocks but the first."""
    arguments = dict(hidden_dim=16, intermediate_dim=8, key_dim=2)
    evolving = dict(attention=layers.EvolvingAttention(12, 2, alpha=0.1, beta=0.1), decoder_attention=None)
    more = count("t5_base", **arguments, **evolving) - count("t5_base", **arguments)
    assert more == 11 * 1308


def test_sizes_by_name():
    model = T5.from_size("t5_v1_1_xl", num_layers=2, dropout=0.0)
    assert (model.hidden_dim, model.num_heads, model.key_dim, model.num_layers) == (2048, 32, 64, 2)
    assert model.gated and not model.tie_output and model.num_decoder_layers == 2


def test_any_attention_takes_the_form_of_t5():
    """No biases, scores that are not scaled, the model's dropout; a scale that is given stays."""
    model = make(attention=layers.TalkingHeadsAttention(3, 4), cross_attention=layers.MultiHeadAttention(2, 8, scale=2))
    encoder, decoder, cross = (
        model.templates[name].layer for name in ("attention", "decoder_attention", "cross_attention")
    )
    assert all(not layer.use_bias and layer.dropout == 0.1 for layer in (encoder, decoder, cross))
    assert [encoder.scale, decoder.scale, cross.scale] == [1, 1, 2]
    assert type(decoder) is layers.TalkingHeadsAttention
    assert not [weight.path for weight in model.weights if "bias" in weight.path]


def test_attention_of_the_decoder():
    """It convolves its own logits; `None` is plain."""

    def of(name, **arguments):
        layer = T5(9, attention=EVOLVING, **arguments).templates[name].layer
        return type(layer).__name__, getattr(layer, "alpha", None), getattr(layer, "beta", None)

    convolving, plain = ("EvolvingAttention", 0.0, 0.4), ("MultiHeadAttention", None, None)
    assert of("attention") == ("EvolvingAttention", 0.3, 0.4)
    assert of("decoder_attention") == of("cross_attention") == convolving
    assert of("decoder_attention", decoder_attention=None) == of("cross_attention", decoder_attention=None) == plain
    assert of("decoder_attention", cross_attention=None) == convolving
    assert of("cross_attention", decoder_attention=EVOLVING)[1] == 0.3
    blocks = make(attention=EVOLVING).decoder_blocks
    assert [layer.role for layer in blocks[1].attentions.values()] == ["decoder", "cross"]


def test_without_alpha_and_beta_it_is_plain():
    attention = layers.EvolvingAttention(3, 5, alpha=0.0, beta=0.0)
    plain, evolving = make(), make(attention=attention)
    check_close(evolving(sentences()), plain(sentences()), 1e-6)  # plain attention is fused, unless somebody looks
    (found, _), (expected, _) = (model(sentences(), return_intermediates=True) for model in (evolving, plain))
    np.testing.assert_array_equal(array(found), array(expected))


@pytest.mark.parametrize("alpha", [0.3, 0.7])
def test_table_of_distances_is_mixed_at_full_weight(alpha):
    """Where queries are 0 the logits are the table alone: the mix of two blocks is the table, before convolutions."""
    model = make(attention=layers.EvolvingAttention(3, 4, alpha=alpha, beta=0.4))
    for block in model.encoder_blocks:
        block.attention.query_dense.kernel.assign(np.zeros(block.attention.query_dense.kernel.shape))
    source = sentences()["source"][1:]
    with layers.capture_intermediates() as found:
        model.encode(source)
    first, second = (found[block.attention.path] for block in model.encoder_blocks)
    positions = np.arange(5)
    table = model.relative_positions[0].bias(keras.ops.zeros((1, 3, 5, 1)), positions, positions)
    check_close(first["logits"], table)
    check_close(second["self_attention"], table)


def test_target_begins_with_a_token_whose_id_is_that_of_padding():
    """Also where attention has losses, in which padding does not count."""
    attention = layers.MultiHeadAttention(3, 5, head_regularizer=Disagreement("outputs"))
    plain, regularized = make(dropout=0.0), make(dropout=0.0, attention=attention)
    inputs = sentences()
    real = inputs["target"] != 0
    real[:, 0] = True
    for training in (False, True):
        expected = array(plain(inputs, training=training))[real]
        check_close(array(regularized(inputs, training=training))[real], expected, TOLERANCE)
    assert regularized.losses


# -------------------------------------------------------------------------------------------- each attention


@each_path
def test_decoding_step_by_step_and_padding(case):
    """Decoding with a cache, also by kernels made once, is one call; padding changes nothing."""
    model, inputs = make(attention=case.make(), **NEWER), sentences()
    real = inputs["target"] != 0
    real[:, 0] = True
    expected = array(model(inputs))
    check_close(array(model(more_padding(inputs, source=4, target=3)))[:, :LENGTH][real], expected[real], TOLERANCE)
    for kernels in (None, model.decoding_kernels()):
        cache, index = model.init_cache(inputs["source"], LENGTH, kernels=kernels), 0
        for width in (1, 1, 4):
            rows = slice(index, index + width)
            logits, cache = model.decode_step(inputs["target"][:, rows], cache, index, kernels=kernels)
            check_close(logits, expected[:, rows], TOLERANCE)
            index += width


@pytest.mark.parametrize("attention", ["multi_head", EVOLVING], ids=["plain", "evolving"])
def test_tied_output_of_a_step(attention):
    model, inputs = make(attention=attention), sentences()
    expected = array(model(inputs))
    cache = model.init_cache(inputs["source"], LENGTH)
    for kernels in (None, model.decoding_kernels()):
        check_close(model.decode_step(inputs["target"], cache, 0, kernels=kernels)[0], expected, TOLERANCE)
    table = array(model.target_embedding.embeddings)
    model.target_embedding.embeddings.assign(0 * table)
    assert not array(model(inputs)).any()


# -------------------------------------------------------------------------------- files, dtypes, compilation

UNUSUAL = dict(
    NEWER,
    num_decoder_layers=1,
    attention=EVOLVING,
    cross_attention=layers.TalkingHeadsAttention(2, 3),
    num_buckets=8,
    max_distance=20,
    norm_epsilon=1e-5,
    dropout=0.2,
    seed=5,
    name="unusual",
)


def test_config_round_trip():
    model = make(**UNUSUAL)
    config = json.loads(json.dumps(model.get_config()))
    assert json.dumps(T5.from_config(config).get_config()) == json.dumps(model.get_config())
    for name, value in UNUSUAL.items():
        if not isinstance(value, keras.layers.Layer):
            assert config[name] == value, name


@pytest.mark.parametrize("arguments", [{}, UNUSUAL], ids=["plain", "unusual"])
def test_file_round_trip(arguments, tmp_path):
    model, inputs = make(**arguments), sentences()
    searcher = Searcher(model, 2, max_length=4, start_id=0, end_id=1)
    expected = searcher(inputs["source"])["scores"]
    searcher.save(tmp_path / "searcher.keras")
    loaded = keras.saving.load_model(tmp_path / "searcher.keras")
    np.testing.assert_array_equal(array(loaded.model(inputs)), array(model(inputs)))
    np.testing.assert_array_equal(array(loaded(inputs["source"])["scores"]), array(expected))


def test_each_dropout_is_used_and_has_a_seed_of_its_own():
    model, inputs = make(seed=3), sentences()
    seeds = sorted(layer.seed for layer in dropout_layers(model))
    assert len(seeds) == 2 + 2 + 2 * 4 + 2 * 6 and seeds == sorted(set(seeds))
    for layer in dropout_layers(model):
        layer.rate = 0.0
    plain = array(model(inputs))
    check_close(model(inputs, training=True), plain, TOLERANCE)
    for layer in model.output_dropouts:
        layer.rate = 0.5
        assert np.abs(array(model(inputs, training=True)) - plain).max() > 1e-3
        layer.rate = 0.0


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(dtype):
    model, inputs = make(attention=EVOLVING), sentences()
    inputs["source"][1] = 0  # padding alone
    mixed = copy_weights(model, make(attention=EVOLVING, dtype=dtype))
    logits, expected = mixed(inputs), model(inputs)
    assert logits.dtype == "float32"
    check_close(logits, expected, 0.02 if dtype == "mixed_float16" else 0.1)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_compiled(jit_compile):
    model, inputs = make(**UNUSUAL), sentences()
    searcher = Searcher(model, 2, max_length=5, start_id=0, end_id=1)
    found = tf.function(lambda: (model(inputs), searcher(inputs["source"])), jit_compile=jit_compile)()
    expected = model(inputs), searcher(inputs["source"])
    for got, want in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        check_close(got, want, TOLERANCE)


# --------------------------------------------------------------------------------------- training and export


def test_fit_writes_labels():
    """A source with a 5 is called "7 8", one with a 6 "9"."""
    rng = np.random.default_rng(0)
    sources = rng.integers(10, VOCABULARY, (64, 5))
    kinds = rng.integers(0, 2, 64)
    sources[np.arange(64), rng.integers(0, 5, 64)] = 5 + kinds
    labels = np.array([[7, 8, 1], [9, 1, 0]])[kinds]
    targets = np.pad(labels, ((0, 0), (1, 0)))[:, :-1]
    keras.utils.set_random_seed(0)
    model = T5(VOCABULARY, 16, 32, 1, attention=EVOLVING, seed=1)
    model.compile(keras.optimizers.Adam(0.01), LabelSmoothedCrossentropy(0.0), jit_compile=False)
    model.fit({"source": sources, "target": targets}, labels, batch_size=32, epochs=20, verbose=0)
    found = Searcher(model, 1, max_length=3, start_id=0, end_id=1)(sources)["tokens"]
    assert np.mean((array(found)[:, 0] == labels).all(axis=1)) > 0.95


def test_exports(tmp_path):
    keras.utils.set_random_seed(0)
    texts = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
    tokenizer = SentencePieceTokenizer(train_sentencepiece(texts, tmp_path / "pieces.model", 32))
    model = make(vocabulary_size=32, attention=EVOLVING, **NEWER)
    searcher = Searcher(model, 2, max_length=5, start_id=0, end_id=tokenizer.eos_id)
    path = export_translator(searcher, tokenizer, tokenizer, tmp_path / "text", warmup_batch_sizes=(), attention=True)
    signatures = tf.saved_model.load(path).signatures
    text = tf.constant(texts)
    found, maps = (signatures[name](text=text) for name in ("serving_default", "attention"))
    np.testing.assert_array_equal(found["translations"], maps["translations"])
    assert tuple(maps["weights"].shape)[:3] == (3, 2, 3)
    check_close(found["scores"], searcher(tokenizer(texts))["scores"][:, 0], TOLERANCE)
