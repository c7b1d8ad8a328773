"""The Transformer as a Keras model: templates, embeddings, positions, files, seeds, numbers of weights."""

import json

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.models import Transformer
from keras_headattn.positions import BucketPositions, LearnedPositions, RelativePositions, SinusoidalPositions
from keras_headattn.training import Model
from tests.models.small import (
    CASES,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    WIDTH,
    array,
    copy_weights,
    dropout_layers,
    each_path,
    make,
    sentences,
    shared,
)

# ----------------------------------------------------------------------------------------------- templates


def test_one_template_for_all():
    model = make(CASES[1], num_layers=2)
    blocks = model.encoder_blocks + model.decoder_blocks
    attentions = [block.attention for block in blocks] + [block.cross_attention for block in model.decoder_blocks]
    assert len(attentions) == 6
    for attention in attentions:
        assert type(attention) is CASES[1].layer
        assert attention.use_gate and (attention.num_heads, attention.key_dim, attention.value_dim) == (
            3,
            4,
            5,
        )


def test_one_template_each():
    model = make(
        num_layers=1,
        num_decoder_layers=2,
        attention=layers.InteractingHeadAttention(2, 4),
        decoder_attention=layers.TalkingHeadsAttention(3, 4),
        cross_attention=layers.LuongAttention(key_dim=5, score_mode="concat"),
    )
    assert [type(block.attention) for block in model.encoder_blocks] == [layers.InteractingHeadAttention]
    assert [type(block.attention) for block in model.decoder_blocks] == [layers.TalkingHeadsAttention] * 2
    assert [type(block.cross_attention) for block in model.decoder_blocks] == [layers.LuongAttention] * 2
    assert tuple(model(sentences()).shape) == (2, 6, TARGET_VOCABULARY)


def test_default_attention_has_eight_heads():
    model = make(attention="multi_head", hidden_dim=16)
    attention = model.decoder_blocks[0].cross_attention
    assert (type(attention), attention.num_heads, attention.key_dim) == (layers.MultiHeadAttention, 8, 2)


def test_template_in_use_elsewhere_is_no_part_of_the_model():
    template = CASES[0].make()
    template(np.ones((1, 2, WIDTH)), np.ones((1, 2, WIDTH)))
    before = template.get_weights()
    assert make(attention=template).count_params() == make().count_params()
    for now, then in zip(template.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@each_path
def test_template_is_only_copied_and_blocks_share_no_weights(case):
    template = case.make()
    config = json.dumps(template.get_config())
    model = make(attention=template, num_layers=2)
    assert not template.built and not template.weights
    assert json.dumps(template.get_config()) == config
    assert all(block.attention is not template for block in model.encoder_blocks + model.decoder_blocks)
    assert len({id(variable) for variable in model.weights}) == len(model.weights)
    by_block = [{v.path for v in block.weights} for block in model.encoder_blocks + model.decoder_blocks]
    assert sum(len(paths) for paths in by_block) == len(set().union(*by_block))
    before = model.get_weights()
    for variable in model.encoder_blocks[0].attention.weights:
        variable.assign(variable + 1.0)
    changed = [not np.array_equal(a, b) for a, b in zip(model.get_weights(), before, strict=True)]
    assert sum(changed) == len(model.encoder_blocks[0].attention.weights)


def test_equal_initializers_draw_different_numbers():
    """Not only in different blocks: an unseeded Keras initializer repeats itself when it is used twice."""
    model = Transformer(6, 6, 2, hidden_dim=WIDTH, intermediate_dim=WIDTH, attention=CASES[0].make(), tie_output=False)
    model.build()
    kernels = [(v.path, array(v).ravel()) for v in model.trainable_variables if np.ptp(array(v)) > 0]
    equal = [
        (path, other_path)
        for i, (path, kernel) in enumerate(kernels)
        for other_path, other in kernels[:i]
        if kernel.size == other.size and np.allclose(kernel, other)
    ]
    assert len(kernels) == 3 + 2 * (6 + 10) and not equal


# ------------------------------------------------------------------------------- embeddings and positions


@pytest.mark.parametrize("target, tie, tables", [
    (None, True, SOURCE_VOCABULARY),
    (None, False, 2 * SOURCE_VOCABULARY),
    (TARGET_VOCABULARY, True, SOURCE_VOCABULARY + TARGET_VOCABULARY),
    (TARGET_VOCABULARY, False, SOURCE_VOCABULARY + 2 * TARGET_VOCABULARY),
])  # fmt: skip
def test_embeddings(target, tie, tables):
    model = make(target_vocabulary_size=target, tie_output=tie)
    blocks = sum(block.count_params() for block in model.encoder_blocks + model.decoder_blocks)
    assert model.count_params() - blocks == tables * WIDTH
    assert tuple(model(sentences()).shape) == (2, 6, target or SOURCE_VOCABULARY)


@pytest.mark.parametrize("tie", [True, False])
def test_what_the_output_layer_is(tie):
    model = make(tie_output=tie)
    before = array(model(sentences()))
    table = model.target_embedding.embeddings if tie else model.output_projection.kernel
    change = np.zeros(table.shape)
    change[(7, ...) if tie else (..., 7)] = 1.0  # token 7 is not in the target
    inputs = sentences()
    inputs["target"][inputs["target"] == 7] = 8
    before = array(model(inputs))
    table.assign(table + change)
    moved = np.abs(array(model(inputs)) - before).max((0, 1)) > 1e-4
    assert moved.nonzero()[0].tolist() == [7]


def test_shared_vocabulary_shares_the_embedding():
    model = make(target_vocabulary_size=None)
    assert model.source_embedding is model.target_embedding


def test_learned_positions():
    model, plain = make(positions=LearnedPositions(6)), make()
    assert model.count_params() - plain.count_params() == 2 * 6 * WIDTH
    inputs = sentences()
    before = array(model(inputs))
    table = model.positions[1].embeddings
    table.assign(np.where(np.arange(6)[:, None] == 3, 5.0, array(table)))
    changed = np.abs(array(model(inputs)) - before).max((0, 2)) > 1e-5
    assert changed.tolist() == [False] * 3 + [True] * 3


def test_sinusoidal_positions():
    """The equation, with the wavelengths a geometric progression from 2 pi to 10,000 * 2 pi."""
    table = array(SinusoidalPositions()(np.zeros((1, 7, 8), "float32")))[0]
    for position in range(7):
        for i in range(4):
            angle = position / 10_000 ** (i / 3)
            np.testing.assert_allclose(table[position, [i, 4 + i]], [np.sin(angle), np.cos(angle)], atol=1e-6)
    moved = SinusoidalPositions()(np.zeros((1, 2, 8), "float32"), np.array([2, 5]))
    np.testing.assert_allclose(array(moved)[0], table[[2, 5]], atol=1e-6)


def test_order_of_the_tokens_matters():
    model, inputs = make(), sentences()
    logits = array(model(inputs))
    inputs["source"][1] = inputs["source"][1, ::-1]
    moved = np.abs(array(model(inputs)) - logits).max((1, 2))
    assert moved[0] == 0 and moved[1] > 1e-3


# ---------------------------------------------------------------------------------------- config and files

UNUSUAL = dict(
    num_layers=1,
    num_decoder_layers=2,
    decoder_attention=layers.TalkingHeadsAttention(2, 3, key_heads=3),
    cross_attention=layers.LuongAttention(key_dim=4, score_mode="general"),
    dropout=0.2,
    activation_dropout=0.3,
    activation="gelu",
    normalization="pre",
    positions=LearnedPositions(9),
    norm=keras.layers.RMSNormalization(epsilon=1e-5),
    tie_output=False,
    seed=5,
    name="unusual",
)


def test_config_round_trip():
    model = make(**UNUSUAL)
    config = json.loads(json.dumps(model.get_config()))
    clone = Transformer.from_config(config)
    assert json.dumps(clone.get_config()) == json.dumps(model.get_config())
    for name, value in UNUSUAL.items():
        if not isinstance(value, keras.layers.Layer):
            assert config[name] == value, name
    names = "attention", "decoder_attention", "cross_attention", "norm", "positions"
    assert [type(clone.templates[name].make()).__name__ for name in names] == [
        "MultiHeadAttention", "TalkingHeadsAttention", "LuongAttention", "RMSNormalization", "LearnedPositions",
    ]  # fmt: skip


@each_path
def test_file_round_trip(case, tmp_path):
    model, inputs = shared(case.name), sentences()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs)), array(model(inputs)))


@pytest.mark.parametrize("arguments", [UNUSUAL, {"target_vocabulary_size": None, "dtype": "mixed_bfloat16"}])
def test_file_round_trip_inside_a_functional_model(arguments, tmp_path):
    """As the recipes do it: the model called on two inputs of unknown length."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    transformer = make(**arguments)
    trainer = Model(inputs, transformer(inputs))
    assert tuple(trainer.outputs[0].shape)[:2] == (None, None)
    expected = array(trainer(sentences()))
    np.testing.assert_array_equal(expected, array(transformer(sentences())))
    trainer.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(sentences())), expected)
    inner = next(layer for layer in loaded.layers if isinstance(layer, Transformer))
    assert json.dumps(inner.get_config()) == json.dumps(transformer.get_config())


def test_weights_file(tmp_path):
    model = make(**UNUSUAL)
    model.save_weights(tmp_path / "model.weights.h5")
    other = make(weights_seed=2, **UNUSUAL)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(array(other(sentences())), array(model(sentences())))


def test_symbolic_shapes():
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    logits, out = make(CASES[3])(inputs, return_intermediates=True)
    assert tuple(logits.shape) == (None, None, TARGET_VOCABULARY) and logits.dtype == "float32"
    assert [*out] == ["encoder_0/attention", "decoder_0/attention", "decoder_0/cross_attention"]
    assert all(tuple(found["weights"].shape) == (None, 4, None, None) for found in out.values())


# ---------------------------------------------------------------------------------------- dropout and seeds

RANDOM = dict(attention=CASES[0].make(dropout=0.3), dropout=0.3, activation_dropout=0.3)


def test_same_seed_same_numbers():
    inputs = sentences()
    one = make(**RANDOM, seed=7)
    two = copy_weights(one, make(**RANDOM, seed=7))
    other = copy_weights(one, make(**RANDOM, seed=8))
    first = array(one(inputs, training=True))
    np.testing.assert_array_equal(array(two(inputs, training=True)), first)
    assert np.abs(array(other(inputs, training=True)) - first).max() > 1e-3
    assert np.abs(array(one(inputs, training=True)) - first).max() > 1e-3  # the next step


def test_no_dropout_outside_training():
    inputs = sentences()
    model = make(**RANDOM)
    expected = array(copy_weights(model, make(dropout=0.0))(inputs))
    np.testing.assert_allclose(array(model(inputs)), expected, atol=1e-6)
    np.testing.assert_allclose(array(model(inputs, training=False)), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["dropout", "activation_dropout", "attention"])
def test_each_dropout_is_used(name):
    rates = {"dropout": 0.0, name: RANDOM[name]}
    model, inputs = make(**rates), sentences()
    assert np.abs(array(model(inputs, training=True)) - array(model(inputs))).max() > 1e-3


def test_each_dropout_has_a_seed_of_its_own():
    """Two dropouts of one seed drop the same positions."""
    seeds = sorted(layer.seed for layer in dropout_layers(make(**RANDOM, num_layers=2, seed=3)))
    assert len(seeds) == 2 + 2 * 4 + 2 * 6
    assert seeds == sorted(set(seeds))


# ------------------------------------------------------------------------------------ sizes and attention


def test_named_sizes():
    model = Transformer.from_size("tiny", 50, attention=layers.InteractingHeadAttention, num_heads=2, num_layers=1)
    assert (model.num_layers, model.hidden_dim, model.intermediate_dim) == (1, 128, 256)
    template = model.templates["cross_attention"].make(name="attention")
    assert isinstance(template, layers.InteractingHeadAttention) and (template.num_heads, template.key_dim) == (2, 64)


@pytest.mark.parametrize(
    "attention",
    [
        "multi_head",
        layers.MultiHeadAttention,
        layers.MultiHeadAttention(2, 8),
        keras.layers.MultiHeadAttention(2, 8),
        lambda num_heads, key_dim: layers.MultiHeadAttention(num_heads, key_dim),
    ],
    ids=["name", "class", "layer", "stock", "function"],
)
def test_attention_is_given_in_many_ways(attention):
    model = Transformer(9, num_layers=1, hidden_dim=16, intermediate_dim=8, attention=attention, num_heads=2)
    for template in (model.templates[name] for name in ("attention", "decoder_attention", "cross_attention")):
        layer = template.make()
        assert type(layer) is layers.MultiHeadAttention and (layer.num_heads, layer.key_dim) == (2, 8)


def test_distances_do_not_go_across_texts():
    """Self-attention has relative positions and a window; attention to the encoder has neither, unless asked for."""
    attention = layers.MultiHeadAttention(2, 8, relative_positions=RelativePositions(3), sliding_window=4)
    sizes = dict(num_layers=1, hidden_dim=16, intermediate_dim=8)
    block = Transformer(9, attention=attention, **sizes)
    block.build()
    across = block.decoder_blocks[0].cross_attention
    assert across.relative_positions is None and across.sliding_window is None
    assert block.decoder_blocks[0].attention.relative_positions.max_distance == 3
    asked = Transformer(9, attention=attention, cross_attention=attention, **sizes)
    asked.build()
    assert asked.decoder_blocks[0].cross_attention.relative_positions.max_distance == 3


def test_blocks_share_one_table_of_relative_positions():
    model = Transformer(
        SOURCE_VOCABULARY,
        num_layers=2,
        hidden_dim=16,
        intermediate_dim=8,
        num_heads=2,
        relative_positions=BucketPositions(8, 16),
    )
    logits = model(sentences())
    tables = [weight for weight in model.weights if weight.name == "embeddings" and weight.shape == (8, 2)]
    assert len(tables) == 2  # of the encoder and of the decoder
    encoder, decoder = (
        blocks[1].attention.relative_positions for blocks in (model.encoder_blocks, model.decoder_blocks)
    )
    assert encoder is model.encoder_blocks[0].attention.relative_positions and encoder.bidirectional
    assert not decoder.bidirectional
    tables[0].assign(tables[0] + 1e3 * np.eye(8)[:, :2])
    assert np.abs(array(model(sentences())) - array(logits)).max() > 1e-3


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
@pytest.mark.parametrize("attention", [layers.MultiHeadAttention, layers.InteractingHeadAttention])
def test_decoding_of_a_quantized_model(attention):
    model = Transformer(30, num_layers=1, hidden_dim=16, intermediate_dim=16, attention=attention(2, 8))
    inputs = {"source": np.array([[4, 5, 6]]), "target": np.array([[2, 7, 8]])}
    model(inputs)
    model.quantize("int8")
    expected = array(model(inputs))
    logits, _ = model.decode_step(inputs["target"], model.init_cache(inputs["source"], 3), 0)
    np.testing.assert_allclose(array(logits), expected, atol=0.1 * np.abs(expected).max())
