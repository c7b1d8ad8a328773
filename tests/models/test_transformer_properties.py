"""What must hold for the Transformer whichever attention it has."""

import keras
import numpy as np
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.utils import flatten_layers
from tests.models.small import (
    CASES,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    array,
    check_close,
    copy_weights,
    each_kind,
    each_path,
    make,
    more_padding,
    sentences,
    shared,
)

TOLERANCE = 5e-6


# ------------------------------------------------------------------------------------------------- padding


@each_kind
def test_padding_changes_nothing(case):
    """Logits of real tokens depend neither on how much padding the batch carries nor on what it holds."""
    model, inputs = make(case), sentences()
    real = inputs["target"] != 0
    expected = array(model(inputs))
    padded = array(model(more_padding(inputs, source=4, target=3)))
    check_close(padded[:, :6][real], expected[real], TOLERANCE)
    for embedding in (model.source_embedding, model.target_embedding):
        table = array(embedding.embeddings).copy()
        table[0] = 50.0  # tied: the padding token's own logit changes
        embedding.embeddings.assign(table)
    others = np.arange(TARGET_VOCABULARY) != 0
    check_close(array(model(inputs))[real][:, others], expected[real][:, others], TOLERANCE)


@each_kind
def test_rows_are_independent(case):
    model, inputs = shared(case.name), sentences()
    together = array(model(inputs))
    for row in range(2):
        alone = array(model({name: ids[row : row + 1] for name, ids in inputs.items()}))
        check_close(alone[0], together[row], TOLERANCE)


@each_kind
def test_row_of_padding_alone(case):
    model, inputs = make(case), sentences()
    expected = array(model(inputs))
    inputs["source"][0] = inputs["target"][0] = 0
    logits = array(model(inputs))
    assert np.isfinite(logits).all()
    check_close(logits[1], expected[1], TOLERANCE)
    with tf.GradientTape() as tape:
        training = case.name != "re_attention"  # it is not trained in decoders
        loss = keras.ops.sum(keras.ops.logsumexp(model(inputs, training=training), axis=-1))
        loss += sum(model.losses)
    for gradient in tape.gradient(loss, model.trainable_variables):
        assert gradient is not None
        assert np.isfinite(array(tf.convert_to_tensor(gradient))).all()


# ----------------------------------------------------------------------------------------------- causality


@each_kind
def test_no_row_sees_a_later_target_token(case):
    check_causality(shared(case.name))


@each_path
def test_no_row_sees_a_later_target_token_where_norms_come_first(case):
    check_causality(make(case, normalization="pre"))


def check_causality(model):
    """Copies of one sentence, each with another target token changed: copy j differs from row j on."""
    length = 6
    source = np.tile(sentences()["source"][1:], (length + 1, 1))
    target = np.tile(sentences()["target"][1:], (length + 1, 1))
    changed = np.arange(length)
    target[changed, changed] = 1 + target[changed, changed] % (SOURCE_VOCABULARY - 1)
    logits = array(model({"source": source, "target": target}))
    difference = np.abs(logits[:-1] - logits[-1]).max(-1)
    for j in range(length):
        assert difference[j, :j].max(initial=0) < 1e-5
        assert difference[j, j] > 5e-5


@each_kind
def test_every_target_row_sees_every_source_token(case):
    model = shared(case.name)
    length = 5
    source = np.tile(sentences()["source"][1:], (length + 1, 1))
    target = np.tile(sentences()["target"][1:], (length + 1, 1))
    changed = np.arange(length)
    source[changed, changed] = 1 + source[changed, changed] % (SOURCE_VOCABULARY - 1)
    logits = array(model({"source": source, "target": target}))
    assert (np.abs(logits[:-1] - logits[-1]).max(-1) > 1e-5).all()


# -------------------------------------------------------------------------------------------------- dtypes


@each_path
def test_mixed_precision(case):
    """A row of padding alone among the sentences."""
    model, inputs = shared(case.name), sentences(batch=3)
    inputs["source"][2] = 0
    mixed = copy_weights(model, make(case, dtype="mixed_float16"))
    logits, out = mixed(inputs, return_intermediates=True)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert np.isfinite(array(logits)).all()
    check_close(logits, model(inputs), 0.02)
    assert keras.backend.standardize_dtype(out["decoder_0/cross_attention"]["weights"].dtype) == "float16"
    assert all(v.dtype == "float32" for v in mixed.trainable_variables)
    blocks = mixed.encoder_blocks + mixed.decoder_blocks
    assert all(block.attention.compute_dtype == "float16" for block in blocks)


def test_global_policy_reaches_every_layer():
    keras.config.set_dtype_policy("mixed_float16")
    model = make()
    assert {layer.compute_dtype for block in model.encoder_blocks for layer in flatten_layers(block)} == {"float16"}
    assert keras.backend.standardize_dtype(model(sentences()).dtype) == "float32"


# ------------------------------------------------------------------------------------------- attention maps


@each_kind
def test_asking_for_the_maps_changes_nothing(case):
    model, inputs = make(case, num_decoder_layers=2), sentences()
    logits, out = model(inputs, return_intermediates=True)
    check_close(logits, model(inputs), TOLERANCE)
    n, m = 5, 6
    sizes = {"encoder_0/attention": (n, n)}
    for number in range(2):
        sizes |= {f"decoder_{number}/attention": (m, m), f"decoder_{number}/cross_attention": (m, n)}
    assert [*out] == [*sizes]
    maps = {name: array(found["weights"]) for name, found in out.items()}
    for name, size in sizes.items():
        assert maps[name].shape == (2, *case.map_axes, *size)
        assert np.isfinite(maps[name]).all()
    real = inputs["source"] != 0
    assert not maps["encoder_0/attention"][0][..., ~real[0]].any()
    assert not maps["decoder_1/cross_attention"][0][..., ~real[0]].any()
    later = np.triu(np.ones((m, m), bool), 1)
    assert not maps["decoder_1/attention"][..., later].any()


def test_asking_for_the_maps_changes_nothing_in_training():
    """Nor the random numbers that are drawn."""
    arguments = dict(attention=CASES[0].make(dropout=0.3), dropout=0.3, activation_dropout=0.3, seed=2)
    one, inputs = make(**arguments), sentences()
    two = copy_weights(one, make(**arguments))
    logits, _ = one(inputs, training=True, return_intermediates=True)
    check_close(logits, two(inputs, training=True), TOLERANCE)


def test_maps_of_the_encoder_alone():
    model, inputs = make(num_layers=2), sentences()
    with layers.capture_intermediates() as found:
        output = model.encode(inputs["source"])
    check_close(output, model.encode(inputs["source"]), TOLERANCE)
    _, out = model(inputs, return_intermediates=True)
    second = found[model.encoder_blocks[1].attention.path]
    check_close(second["weights"], out["encoder_1/attention"]["weights"], TOLERANCE)


# ------------------------------------------------------------------------------------------------ training


@each_path
def test_every_weight_gets_a_gradient(case):
    model, inputs = make(case), sentences()
    with tf.GradientTape() as tape:
        loss = keras.ops.sum(keras.ops.square(model(inputs, training=True)))
        loss += sum(model.losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        # A bias of the keys adds the same to all logits of a query: its gradient is 0 up to rounding.
        assert gradient is not None, variable.path
        assert "key/bias" in variable.path or np.abs(array(tf.convert_to_tensor(gradient))).max() > 0, variable.path
