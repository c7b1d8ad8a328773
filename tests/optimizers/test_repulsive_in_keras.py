"""`Repulsive` with the rest of Keras: other optimizers, XLA, accumulation, loss scales, averages, saving."""

import keras
import numpy as np
import pytest

from keras_headattn.optimizers import InverseSquareRoot, Repulsive, head_axis
from tests.models.small import make, sentences
from tests.optimizers.kernels import kernel_variable, normal

ADAM = keras.optimizers.Adam


def stock_model():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5, 8))
    return keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))


DATA = normal(6, 5, 8, seed=1), normal(6, 5, 8, seed=2)


def trained(optimizer, model=None, epochs=3, batch_size=6, **compiling):
    """Eagerly, but for the test that graph and XLA give the same."""
    model = model or stock_model()
    model.compile(optimizer, "mse", **(compiling or {"run_eagerly": True}))
    model.fit(*DATA, epochs=epochs, batch_size=batch_size, shuffle=False, verbose=0)
    return model


def spos(inner, **arguments):
    return Repulsive(inner, method="spos", inverse_temperature=1e6, seed=5, verbose=False, **arguments)


def check_equal(one, other, atol=1e-6):
    for mine, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=atol)


@pytest.mark.parametrize(
    "inner",
    [
        lambda: "adam",
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.Adam(InverseSquareRoot(1e-2, 2), global_clipnorm=0.1),
        lambda: keras.optimizers.AdamW(1e-2, weight_decay=0.1),
        lambda: keras.optimizers.Adafactor(1e-2),
        lambda: keras.optimizers.Lion(1e-3),
    ],
)
def test_any_optimizer_inside(inner):
    before = stock_model().get_weights()
    model = trained(Repulsive(inner(), repulsive_weight=0.1, verbose=False))
    for old, new in zip(before, model.get_weights(), strict=True):
        assert np.isfinite(new).all() and (old != new).any()


def test_learning_rate_and_iterations_are_the_inner_ones():
    model = trained(Repulsive(keras.optimizers.SGD(0.5), verbose=False))
    assert int(model.optimizer.iterations) == 3
    model.optimizer.learning_rate = 0.25
    assert float(model.optimizer.inner_optimizer.learning_rate) == float(model.optimizer.learning_rate) == 0.25


def test_other_weights_are_left_alone():
    plain, repulsive = trained(keras.optimizers.SGD(0.1), epochs=1), trained(sgd_at(0.1), epochs=1)
    for mine, theirs in zip(plain.trainable_variables, repulsive.trainable_variables, strict=True):
        changed = not np.allclose(mine.numpy(), theirs.numpy(), atol=1e-7)
        assert changed == (head_axis(mine) == 1), mine.path


def sgd_at(rate, **arguments):
    return Repulsive(keras.optimizers.SGD(rate), verbose=False, **arguments)


@pytest.mark.parametrize("method", ["svgd", "spos"])
def test_xla_equals_graph_equals_eager(method):
    kinds = {"jit_compile": True}, {"jit_compile": False}, {"run_eagerly": True}
    arguments = dict(method=method, repulsive_weight=0.5, inverse_temperature=100.0, seed=1, verbose=False)
    xla, graph, eager = (trained(Repulsive(keras.optimizers.SGD(0.1), **arguments), **kind) for kind in kinds)
    check_equal(xla, graph, atol=1e-5)
    check_equal(graph, eager, atol=1e-5)


def test_accumulation_equals_the_whole_batch():
    whole = trained(Repulsive(keras.optimizers.SGD(0.1), repulsive_weight=0.5, verbose=False))
    parts = trained(
        Repulsive(keras.optimizers.SGD(0.1, gradient_accumulation_steps=3), repulsive_weight=0.5, verbose=False),
        batch_size=2,
    )
    check_equal(whole, parts)


def test_noise_of_accumulated_gradients_is_as_large():
    kernel = np.zeros((64, 8, 32), "float32")
    inner = keras.optimizers.SGD(1.0, gradient_accumulation_steps=4)
    optimizer = Repulsive(inner, method="sgld", step_size=0.1, inverse_temperature=10.0, seed=1, verbose=False)
    variable = kernel_variable(kernel)
    for _ in range(4):
        optimizer.apply([keras.ops.convert_to_tensor(kernel)], [variable])
    np.testing.assert_allclose(variable.numpy().std(), np.sqrt(2 * 0.1 / 10), rtol=0.02)


@pytest.mark.parametrize("scale", [None, 64.0])
def test_fixed_loss_scale(scale):
    inner = keras.optimizers.SGD(0.1, loss_scale_factor=scale)
    check_equal(trained(Repulsive(inner, verbose=False)), trained(sgd_at(0.1)), atol=1e-6)


def test_dynamic_loss_scale():
    scaled = trained(keras.optimizers.LossScaleOptimizer(spos(keras.optimizers.SGD(0.1))))
    check_equal(scaled, trained(spos(keras.optimizers.SGD(0.1))), atol=1e-6)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = trained(spos(ADAM(0.01)))
    finally:
        keras.config.set_dtype_policy("float32")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_moving_average_ends_in_the_weights():
    averaged = trained(Repulsive(ADAM(0.1, use_ema=True, ema_momentum=0.5), verbose=False))
    last = trained(Repulsive(ADAM(0.1), verbose=False))
    assert any(
        not np.allclose(mine, theirs) for mine, theirs in zip(averaged.get_weights(), last.get_weights(), strict=True)
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_moving_averages_are_swapped_in(policy):
    """By Keras's callback, which looks for them one optimizer further in where the loss is scaled."""
    inputs = keras.Input((4, 8))
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4, dtype=policy)(inputs, inputs))
    model.compile(
        Repulsive(keras.optimizers.SGD(0.1, use_ema=True), verbose=False), "mse", auto_scale_loss=True, run_eagerly=True
    )
    x = normal(16, 4, 8)
    model.fit(x, x, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)])
    inner = model.optimizer
    while hasattr(inner, "inner_optimizer"):
        inner = inner.inner_optimizer
    average = inner._model_variables_moving_average[0]
    np.testing.assert_array_equal(model.trainable_variables[0].numpy(), average.numpy())


@pytest.mark.parametrize("names, left", [(["kernel"], 1.0), (["bias"], 0.5)])
def test_weights_left_out_of_weight_decay(names, left):
    """Without gradient and repulsion decay alone is left."""
    inner = keras.optimizers.AdamW(1.0, weight_decay=0.5)
    optimizer = Repulsive(inner, repulsive_weight=0.0, verbose=False)
    kernel = kernel_variable(normal(4, 2, 2))
    optimizer.exclude_from_weight_decay(var_names=names)
    optimizer.apply([keras.ops.zeros_like(kernel)], [kernel])
    np.testing.assert_allclose(kernel.numpy(), left * normal(4, 2, 2), atol=1e-6)


@pytest.mark.parametrize("method", ["svgd", "spos"])
def test_a_drawn_seed_is_state_not_configuration(method):
    """So that a resumed run, whose process draws another, is taken for the same."""
    optimizer = Repulsive("sgd", method=method, verbose=False)
    assert optimizer.get_config()["seed"] is None
    optimizer.build([kernel_variable(normal(4, 2, 2))])
    seeds = [variable for variable in optimizer.variables if "seed" in variable.path]
    assert len(seeds) == (method == "spos")


def test_frozen_layer():
    model = stock_model()
    model.layers[-1].query_dense.trainable = False
    before = model.layers[-1].query_dense.kernel.numpy()
    trained(sgd_at(0.1), model)
    np.testing.assert_array_equal(model.layers[-1].query_dense.kernel.numpy(), before)


@keras.saving.register_keras_serializable("test_repulsive")
def only_queries(path):
    return "/query/" in path


@pytest.mark.parametrize("select", [None, "(query|key)/kernel$", only_queries])
def test_saved_model_goes_on_where_it_was(tmp_path, select):
    arguments = {"select": select, "layers": "last", "projections": ["query", "key"], "kernel": "cosine"}
    model = trained(spos(ADAM(0.01), **arguments))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for one in (model, loaded):
        one.fit(*DATA, epochs=2, batch_size=6, shuffle=False, verbose=0)
    check_equal(model, loaded, atol=0)


def test_transformer():
    model = make(num_layers=1)
    optimizer = Repulsive(ADAM(1e-3), repulsive_weight=0.1, verbose=False)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(True), jit_compile=False)
    inputs = sentences()
    history = model.fit(inputs, inputs["target"], epochs=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
