"""A step of ELECTRA's own program, google-research/electra 8a46635, and the layers it is made of."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.interop._copying import Names, copy_weights, store, weights_by_name
from keras_headattn.interop._tables import of_generator, of_tensorflow
from keras_headattn.layers import EncoderBlock, FeedForward, MultiHeadAttention
from keras_headattn.models._bert import pretraining
from tests.layers.harness import array
from tests.models.electra import given_numbers, names_of, of_google

FILES = ["electra_pretraining.npz", "electra_pretraining_duplicates.npz"]


def check(found, expected, atol=1e-5):
    np.testing.assert_allclose(array(found), expected, rtol=0, atol=atol)


def keys(data, replacement):
    """Random numbers by which the positions of the file are drawn."""
    positions, length = data["positions"], data["input_ids"].shape[1]
    each = positions[:, :, None] == np.arange(length)  # (B, K, n)
    if replacement:
        return each.astype("float32")
    drawn = each & (data["masked_lm_weights"] > 0)[:, :, None]
    order = 1.0 - 0.1 * np.arange(positions.shape[1])
    return (drawn * order[:, None]).max(axis=1).astype("float32")


@pytest.mark.parametrize("file", FILES)
def test_a_step(golden, file, monkeypatch):
    """Masks, losses, ids, labels and gradients of all weights; in the second file positions were drawn twice."""
    data = golden(file)
    twice = file == FILES[1]
    model = of_google(data, replacement=twice)
    inputs = {"token_ids": data["input_ids"], "segment_ids": data["segment_ids"]}
    numbers = keys(data, twice), data["mask_uniform"]
    given_noise(data["gumbel_uniform"], monkeypatch)
    with given_numbers(*numbers):
        masks = model.draw_masks(inputs)
    for name in ("masked_input_ids", "masked_lm_weights", "masked_lm_positions"):
        ours = name.replace("input_", "").replace("masked_lm", "mask")
        np.testing.assert_array_equal(array(masks[ours]), data[name])
    with tf.GradientTape() as tape, given_numbers(*numbers):
        outputs = model(inputs)
        loss = model.compute_loss(inputs, y_pred=outputs)
    chosen, is_real = data["masked_lm_weights"] > 0, data["input_mask"] > 0
    check(outputs["mask_logits"], data["generator_logits_f64"])
    check(array(outputs["mask_losses"])[chosen], data["mlm_loss_f64"][chosen])
    np.testing.assert_array_equal(array(outputs["sampled_ids"])[chosen], data["sampled_ids"][chosen])
    np.testing.assert_array_equal(array(outputs["replaced_ids"]), data["replaced_ids"])
    np.testing.assert_array_equal(array(outputs["replaced_labels"]), data["labels"])
    check(array(keras.ops.sigmoid(outputs["replaced_logits"]))[is_real], data["disc_probs_f64"][is_real])
    assert float(loss) == pytest.approx(float(data["total_loss_f64"]), rel=1e-5)
    measured = model.compute_metrics(inputs, None, outputs)
    assert float(measured["generator_loss"]) == pytest.approx(float(data["generator_loss_f64"]), rel=1e-5)
    check_gradients(model, tape.gradient(loss, model.trainable_variables), data)


def given_noise(uniform, monkeypatch):
    """Samples as the original program draws them, by Gumbel noise of these numbers."""
    noise = -np.log(-np.log(uniform + 1e-9) + 1e-9)
    monkeypatch.setattr(pretraining, "sample", lambda logits, seed: keras.ops.argmax(logits + noise, axis=-1))


def check_gradients(model, gradients, data):
    gradients = dict(zip(map(id, model.trainable_variables), map(tf.convert_to_tensor, gradients), strict=True))
    given = of_tensorflow({name[5:-4]: data[name] for name in data.files if name.startswith("grad.")})
    own = {name.removeprefix("electra."): gradient for name, gradient in given.items()}
    for head, expected in ((model.discriminator, own), (model.generator, of_generator(given))):
        for name, variable in weights_by_name(head).items():
            found, theirs = gradients.pop(id(variable), None), names_of(head).find(name)
            if found is not None:
                # Sums of float32, whose order depends on the CPU.
                check(store(name, found, "torch"), expected[theirs], 5e-6 * max(1, np.abs(expected[theirs]).max()))
    assert not gradients and len(given) == 82


@pytest.mark.parametrize("variant", ["nomask", "mask", "padmask"])
def test_attention(golden, variant):
    """Without its output projection. A row that may attend to nothing has the weights of no mask there, zeros here."""
    data = golden("electra_attention_layer.npz")
    layer = MultiHeadAttention(3, 4, output_shape=12, dtype="float64")
    queries, entries = data["from_tensor"].astype("float64"), data["to_tensor"].astype("float64")
    layer.build(queries.shape, entries.shape)
    for name in ("query", "key", "value"):
        kernel, bias = data[f"w.{name}.kernel"], data[f"w.{name}.bias"]
        getattr(layer, f"{name}_dense").set_weights([kernel.reshape(-1, 3, 4), bias.reshape(3, 4)])
    layer.output_dense.set_weights([np.eye(12).reshape(3, 4, 12), np.zeros(12)])
    mask = {"mask": data["attention_mask"] > 0, "padmask": data["padmask.mask"] > 0}.get(variant)
    found, weights = layer(queries, entries, attention_mask=mask, return_attention_scores=True)
    rows = np.ones((2, 5), bool) if mask is None else mask.any(axis=-1)
    check(array(found)[rows], data[f"{variant}.context_f64"][rows], 1e-9)
    moved = np.moveaxis(array(weights), 1, 2), np.moveaxis(data[f"{variant}.probs_f64"], 1, 2)
    check(moved[0][rows], moved[1][rows], 1e-9)


def test_encoder(golden):
    """Two blocks."""
    data = golden("electra_transformer_model.npz")
    x, is_real = data["input_tensor"].astype("float64"), data["input_mask"] > 0
    names = {
        "attention/{p}": "layer/attention/self/{p}",
        "attention/attention_output": "layer/attention/output/dense",
        "attention_norm": "layer/attention/output/LayerNorm",
        "feed_forward/inner": "layer/intermediate/dense",
        "feed_forward/outer": "layer/output/dense",
        "feed_forward_norm": "layer/output/LayerNorm",
    }
    for number in range(2):
        norm = keras.layers.LayerNormalization(epsilon=1e-12, dtype="float64")
        own = dict(feed_forward=FeedForward(17, "gelu", dtype="float64"), norm=norm, dropout=0.0, dtype="float64")
        block = EncoderBlock(MultiHeadAttention(3, 4, dtype="float64"), **own, name="block")
        block.build(x.shape)
        start = f"w.layer_{number}."
        found = {name.removeprefix(start): data[name] for name in data.files if name.startswith(start)}
        tensors = {f"layer/{name.replace('.', '/')}": tensor for name, tensor in found.items()}
        copy_weights(block, tensors, Names(names, kernels="dense"))
        x = array(block(x, is_real))
        check(x[is_real], data["all_layers_f64"][number][is_real], 1e-7)
