import collections
import math
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import keras
from keras import ops
from keras.saving import deserialize_keras_object, register_keras_serializable, serialize_keras_object

from keras_headattn._identifiers import check_seed
from keras_headattn._private import (
    built_for,
    own_variables,
    replicas_to_sum,
    share_averages,
    updates,
    variable_key,
)
from keras_headattn._types import Tensor
from keras_headattn._validation import check_boolean, check_number
from keras_headattn.ops._stein import BANDWIDTHS, KERNELS, stein_gradient
from keras_headattn.ops._threefry import threefry_normal
from keras_headattn.optimizers._heads import LAYERS, ROLES, describe, select_heads

METHODS = ("svgd", "spos", "sgld")
GROUPINGS = ("heads", "interleaved")
# Constructor arguments in a configuration: objects, and others.
NESTED = ("inner_optimizer", "select")
SETTINGS = ("method", "step_size", "repulsive_weight", "inverse_temperature", "prior_deviation", "projections", "roles")
SETTINGS += ("layers", "grouping", "bandwidth", "kernel", "smoothing", "seed", "verbose", "name")


@register_keras_serializable(package="keras_headattn")
class Repulsive(keras.optimizers.Optimizer):
    """Optimizer that treats the heads of an attention layer as particles that drive each other apart.

    The parts of the M heads in each query, key and value kernel (of this library, Keras or KerasHub) are particles x_i.
    Instead of their gradients, the inner optimizer receives and subtracts

    | method | |
    |---|---|
    | `"svgd"` | `e/M sum_j [ k(x_j, x_i) grad_j - a d/dx_j k(x_j, x_i) ]`, k as in `ops.stein_gradient` |
    | `"spos"` | the same, `+ e/b grad_i - sqrt(2e/b) noise` |
    | `"sgld"` | `e grad_i - sqrt(2e/b) noise` |

    Everything else is left to the inner optimizer: other weights, learning rate, clipping, accumulation, moving
    averages and weight decay. Optimizers that normalise gradients, such as Adam, cancel the step size e except for its
    ratio to the noise. The noise depends only on seed and step: replicas, restarts, XLA and gradient accumulation do
    not change it.

    Source: An et al. 2020, "Repulsive attention: rethinking multi-head attention as Bayesian inference", eqs. 4, 5, 14.

    Args:
        inner_optimizer: Keras optimizer, or its name.
        method: `"svgd"`, `"spos"` or `"sgld"`.
        step_size: `e`. Default 0.1, the paper's for translation.
        repulsive_weight: `a`. Default 0.01, the paper's for translation.
        inverse_temperature: `b`, of `"spos"` and `"sgld"`. Default 1e8: noise as large as a gradient of 4e-4. The paper
            tunes it and prints no value.
        prior_deviation: deviation of a Gaussian prior of each weight with mean 0. Default `None`: a uniform prior.
        projections: some of `"query"`, `"key"`, `"value"` and the names of marked kernels (docs/repulsive.md). Default
            `None`: all.
        roles: some of `"encoder"`, `"decoder"` and `"cross"`, by the layers' paths; encoder if the path does not tell.
        layers: `"all"`, or `"first"` or `"last"` of each role.
        select: regular expression to find in a weight's path, or function of the path. Default `None`: all.
        grouping: `"heads"`; or `"interleaved"`, as in the paper's code: particle i is columns i, i + M, i + 2M, ... of
            the kernel.
        bandwidth: `"paper"` or `"code"`, see `ops.stein_gradient`.
        kernel: `k`, `"rbf"` or `"cosine"` (eq. 14), see `ops.stein_gradient`.
        smoothing: True to move a head by the gradients of nearby heads, too. Table 11 of the paper has `"cosine"` with
            and without it.
        seed: seed of the noise. Default `None`: random, and saved with the state.
        verbose: True to print the selected kernels.

    Raises:
        ValueError: when it is built for a model without such weights.

    >>> inputs = keras.Input((6, 16))
    >>> outputs = keras.layers.MultiHeadAttention(num_heads=4, key_dim=4)(inputs, inputs)
    >>> model = keras.Model(inputs, outputs)
    >>> model.compile(Repulsive(keras.optimizers.Adam(1e-3), repulsive_weight=0.1), loss="mse")
    >>> history = model.fit(np.ones((8, 6, 16)), np.zeros((8, 6, 16)), verbose=0)
    Repulsive svgd acts on 3 kernels (query/key/value) of 4 heads, in attention layers: 1 encoder
    """

    def __init__(
        self,
        inner_optimizer: str | keras.optimizers.Optimizer,
        method: str = "svgd",
        step_size: float = 0.1,
        repulsive_weight: float = 0.01,
        inverse_temperature: float = 1e8,
        prior_deviation: float | None = None,
        projections: Collection[str] | None = None,
        roles: Collection[str] = ROLES,
        layers: str = "all",
        select: str | Callable[[str], bool] | None = None,
        grouping: str = "heads",
        bandwidth: str = "paper",
        kernel: str = "rbf",
        smoothing: bool = True,
        seed: int | None = None,
        verbose: bool = True,
        name: str | None = None,
    ):
        super().__init__(learning_rate=0.0, name=name)
        self.inner_optimizer = _as_inner_optimizer(inner_optimizer)
        self.method = _choice("method", method, METHODS)
        self.step_size = check_number("step_size", step_size, above=0)
        self.repulsive_weight = check_number("repulsive_weight", repulsive_weight, least=0)
        self.inverse_temperature = check_number("inverse_temperature", inverse_temperature, above=0)
        self.prior_deviation = prior_deviation
        if prior_deviation is not None:
            check_number("prior_deviation", prior_deviation, above=0)
        self.projections = None if projections is None else _names("projections", projections)
        self.roles = _names("roles", roles)
        if not roles or any(role not in ROLES for role in roles):
            raise ValueError(f"`roles` must be some of {', '.join(ROLES)}. Received: roles={roles!r}")
        self.layers = _choice("layers", layers, LAYERS)
        self.select = _selection(select)
        self.grouping = _choice("grouping", grouping, GROUPINGS)
        self.bandwidth = _choice("bandwidth", bandwidth, BANDWIDTHS)
        self.kernel = _choice("kernel", kernel, KERNELS)
        self.smoothing = check_boolean("smoothing", smoothing)
        self.seed = check_seed("seed", seed)
        self.verbose = verbose

    def build(self, variables: Sequence[keras.Variable]) -> None:
        kernels = select_heads(variables, self.projections, self.roles, self.layers, self.select)
        self._head_axes = {variable_key(self, kernel.variable): kernel.axis for kernel in kernels}
        if self.verbose:
            print(f"Repulsive {self.method} acts on {describe(kernels)}", flush=True)
        self.inner_optimizer.build(variables)
        super().build(variables)
        if self.method != "svgd":
            seed = random.randrange(2**31) if self.seed is None else self.seed  # Keras seeds this module, too
            self._noise_seed = self.add_variable(
                (), keras.initializers.Constant(seed % 2**31), "int32", "only_first_replica", name="seed"
            )
        if self.inner_optimizer.use_ema:  # here `SwapEMAWeights` looks for them where the loss is scaled
            self.use_ema = True
            share_averages(self, self.inner_optimizer)

    def apply(self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        if not self.built:
            if trainable_variables is None:
                raise ValueError(
                    "An optimizer that is not built needs `trainable_variables`, or `build` first. "
                    "Received: trainable_variables=None"
                )
            with keras.name_scope(self.name):
                self.build(trainable_variables)
        variables = built_for(self) if trainable_variables is None else list(trainable_variables)
        self.inner_optimizer.apply(self._repelled(list(grads), variables), trainable_variables)

    def _repelled(self, gradients, variables):
        sets = collections.defaultdict(list)  # of particles of the same shape: they are computed at once
        for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
            axis = self._head_axes.get(variable_key(self, variable))
            if axis is not None and gradient is not None:
                particles = _Particles(variable.shape, axis, self.grouping)
                sets[particles.num_particles, particles.size].append((index, particles))
        share = self._share()
        noise = self._noise(sets)
        for members in sets.values():
            particles = ops.stack([layout.split(variables[index]) for index, layout in members])
            theirs = ops.stack([layout.split(gradients[index]) for index, layout in members])
            moved = self._moved(particles, theirs, share, next(noise))
            for (index, layout), gradient in zip(members, ops.unstack(moved, len(members)), strict=True):
                gradients[index] = ops.cast(layout.join(gradient), gradients[index].dtype)
        return gradients

    def _moved(self, particles, gradients, share, noise):
        """Returns the directions `(S, M, P)`; terms that are not gradients of the loss are scaled by `share`."""
        if self.prior_deviation is not None:
            gradients += share * particles / self.prior_deviation**2
        if self.method == "sgld":
            return self.step_size * (gradients + noise * share)
        weight = self.repulsive_weight * share
        moved = stein_gradient(particles, gradients, weight, self.bandwidth, self.kernel, self.smoothing)
        if self.method == "spos":
            moved += gradients / self.inverse_temperature + noise * share
        return self.step_size * moved

    def _noise(self, sets):
        """Yields Gaussian noise for every set, or `None` without noise."""
        if self.method == "svgd":
            yield from [None] * len(sets)
            return
        shapes = [(len(members), *shape) for shape, members in sets.items()]
        sizes = [sets * heads * size for sets, heads, size in shapes]
        # Larger where gradients are accumulated, as the mean of several is taken.
        times = self.inner_optimizer.gradient_accumulation_steps or 1
        deviation = (2.0 * times / (self.inverse_temperature * self.step_size)) ** 0.5
        normal = deviation * threefry_normal(sum(sizes), self._noise_seed, updates(self.inner_optimizer))
        start = 0
        for shape, size in zip(shapes, sizes, strict=True):
            yield ops.reshape(normal[start : start + size], shape)
            start += size

    def _share(self):
        """Returns the factor of terms that are not gradients: gradients are scaled, and every replica adds the term."""
        share = self.inner_optimizer.loss_scale_factor or 1.0
        share /= replicas_to_sum(self.inner_optimizer)  # `training.Model` has summed before
        return share

    @property
    def variables(self) -> list[keras.Variable]:
        return own_variables(self) + self.inner_optimizer.variables

    @property
    def learning_rate(self) -> Any:
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        self.inner_optimizer.learning_rate = learning_rate

    @property
    def iterations(self) -> keras.Variable:
        return self.inner_optimizer.iterations

    def scale_loss(self, loss: Tensor) -> Tensor:
        return self.inner_optimizer.scale_loss(loss)

    def exclude_from_weight_decay(
        self, var_list: Sequence[keras.Variable] | None = None, var_names: Sequence[str] | None = None
    ) -> None:
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def get_config(self) -> dict[str, Any]:
        nested = {name: serialize_keras_object(getattr(self, name)) for name in NESTED}
        return {**nested, **{name: getattr(self, name) for name in SETTINGS}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        nested = {name: deserialize_keras_object(config[name]) for name in NESTED}
        return cls(**{**config, **nested})


class _Particles:
    """Conversion of a kernel to its heads' particles `(M, P)`, and back."""

    def __init__(self, shape, axis, grouping):
        self.num_particles = shape[axis]
        self.size = math.prod(shape) // self.num_particles
        self._kernel_shape = shape
        self._shape, self._axis = (shape, axis) if grouping == "heads" else ((self.size, self.num_particles), 1)

    def split(self, kernel):
        heads_first = ops.moveaxis(ops.reshape(ops.cast(kernel, "float32"), self._shape), self._axis, 0)
        return ops.reshape(heads_first, (self.num_particles, self.size))

    def join(self, particles):
        other_sizes = [size for axis, size in enumerate(self._shape) if axis != self._axis]
        heads_first = ops.reshape(particles, (self.num_particles, *other_sizes))
        return ops.reshape(ops.moveaxis(heads_first, 0, self._axis), self._kernel_shape)


def _as_inner_optimizer(received):
    optimizer = keras.optimizers.get(received)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(f"`inner_optimizer` must be an optimizer or its name. Received: inner_optimizer={received!r}")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "Scale the loss outside: LossScaleOptimizer(Repulsive(...)), as `compile` does itself. "
            f"Received: inner_optimizer={optimizer}"
        )
    return optimizer


def _choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}")
    return value


def _names(name, value):
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(f"`{name}` must be a list of names. Received: {name}={value!r}")
    return tuple(value)


def _selection(select):
    if select is None or callable(select):
        return select
    try:
        re.compile(select if isinstance(select, str) else None)
    except (re.error, TypeError) as error:
        raise ValueError(
            f"`select` must be a regular expression or a function of a path. Received: select={select!r}"
        ) from error
    return select
