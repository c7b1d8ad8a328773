import math
from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import check_number, check_positive
from keras_headattn.ops._dense import apply_head_kernels

FARTHEST = 1e12  # from the mean of the centres: its square over the least variance is finite in float32
LOG_2_PI = math.log(2 * math.pi)
NARROWEST = math.log(1e-6)  # logarithm of the least variance; below it there is no gradient


@register_keras_serializable(package="keras_headattn")
class GaussianMixture(keras.layers.Layer):
    """Mixtures of Gaussians with diagonal covariances, one for each head or one for all, trained by gradients.

    Computes in logarithms and in float32 (float64 for a float64 layer), so that far-away points are safe. No variance
    is below 1e-6. With TensorFloat-32, TensorFlow's default on GPUs, squared distances are accurate to three digits.

    The centres start orthogonal and equally long, as far as the width allows, and the deviations at 1, so that no
    cluster takes all points near the origin.

    Source: "Disentangled mask attention in Transformer", eqs. 3 and 5; Jiang et al. 2017, "Variational deep embedding".

    Args:
        num_clusters: number of clusters `C`.
        num_heads: number of heads `h`, each with its own mixture. Default `None`: one mixture for all.
        centre_gradient: factor of the gradient of the centres.
        centre_initializer: of the centres of one head. Default: orthogonal, of length 1.

    Call arguments:
        inputs: `(B, h, n, d)`.

    Returns:
        Log density of each cluster at each point, `(B, h, n, C)`.

    >>> mixture = GaussianMixture(num_clusters=4, num_heads=2)
    >>> log_densities = mixture(keras.random.normal((3, 2, 5, 8)))
    >>> posteriors = keras.ops.exp(mixture.log_posteriors(log_densities))
    >>> tuple(posteriors.shape), bool(keras.ops.all(keras.ops.abs(keras.ops.sum(posteriors, -1) - 1) < 1e-5))
    ((3, 2, 5, 4), True)
    """

    def __init__(
        self,
        num_clusters: int,
        num_heads: int | None = None,
        centre_gradient: float = 1.0,
        centre_initializer: Initializer = "orthogonal",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_clusters = check_positive("num_clusters", num_clusters)
        self.num_heads = None if num_heads is None else check_positive("num_heads", num_heads)
        self.centre_gradient = check_number("centre_gradient", centre_gradient, least=0)
        self.centre_initializer = initializer("centre_initializer", centre_initializer)

    def build(self, inputs_shape: Shape) -> None:
        if len(inputs_shape) != 4 or self.num_heads not in (None, inputs_shape[1]):
            raise ValueError(
                f"`inputs` must be (B, {self.num_heads or 'h'}, n, d). Received: inputs of shape {tuple(inputs_shape)}"
            )
        heads, clusters, width = self.num_heads or 1, self.num_clusters, inputs_shape[-1]
        self.width: Any = width

        def spread(shape, dtype=None):
            # Orthogonal matrices cannot be made in 16 bits.
            centres = [self.centre_initializer.clone()(shape[1:], dtype="float32") for _ in range(heads)]
            return ops.cast(ops.stack(centres), dtype)

        # `autocast` would round them to 16 bits before use.
        shape = (heads, clusters, width)
        self.log_weights = self.add_weight(name="log_weights", shape=shape[:2], initializer="zeros", autocast=False)
        self.centres = self.add_weight(name="centres", shape=shape, initializer=spread, autocast=False)
        self.log_variances = self.add_weight(name="log_variances", shape=shape, initializer="zeros", autocast=False)
        self.built = True

    @property
    def wide_dtype(self) -> str:
        """Dtype of all computations: float32, or float64 for a float64 layer."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def _wide(self, variable):
        return ops.cast(variable, self.wide_dtype)

    def call(self, inputs: Tensor) -> Tensor:
        centres = self._wide(self.centres)
        if self.centre_gradient != 1:
            centres = centres + (self.centre_gradient - 1) * (centres - ops.stop_gradient(centres))
        middle = ops.stop_gradient(ops.mean(centres, axis=1, keepdims=True))  # near it, squares lose the fewest digits
        points = ops.clip(self._wide(inputs) - middle, -FARTHEST, FARTHEST)
        centres, log_variances = centres - middle, self._log_variances()
        precisions = ops.exp(-log_variances)
        # (x - c)^2 as x^2 - 2 x c + c^2: matrix products, where differences would be B x h x n x C x d.
        squares = apply_head_kernels(ops.square(points), ops.swapaxes(precisions, 1, 2))
        squares = squares - 2 * apply_head_kernels(points, ops.swapaxes(precisions * centres, 1, 2))
        squares = squares + ops.sum(precisions * ops.square(centres), axis=-1)[:, None]
        constant = ops.sum(log_variances, axis=-1) + self.width * LOG_2_PI
        return -0.5 * (ops.maximum(squares, 0.0) + constant[:, None])  # rounding can make small squares negative

    def _log_variances(self):
        return ops.maximum(self._wide(self.log_variances), NARROWEST)

    def log_posteriors(self, log_densities: Tensor) -> Tensor:
        """Returns the log probability of each cluster, given a point: `(B, h, n, C)`.

        Args:
            log_densities: `(B, h, n, C)`, the output of the layer.
        """
        return ops.log_softmax(log_densities + self._log_shares(), axis=-1)

    def _log_shares(self):
        return ops.log_softmax(self._wide(self.log_weights), axis=-1)[:, None]

    def divergences(self, log_densities: Tensor, variance: float = 0.1) -> tuple[Tensor, Tensor]:
        """Returns Kullback-Leibler divergences from the mixture: of a Gaussian about each point, and of its cluster.

        The cluster's distribution is the posterior at the point. The two sum to the divergence of both together.

        Args:
            log_densities: `(B, h, n, C)`, the output of the layer.
            variance: of the Gaussian, in each direction.

        Returns:
            Two `(B, h, n)`, in nats: of the Gaussian, averaged over clusters, and of the cluster.
        """
        posteriors = self.log_posteriors(log_densities)
        spread = variance * ops.sum(ops.exp(-self._log_variances()), axis=-1)[:, None]
        constant = self.width * (1 + LOG_2_PI + math.log(variance))
        of_gaussian = -log_densities + 0.5 * (spread - constant)
        shares = ops.exp(posteriors)
        gaussian = ops.sum(shares * of_gaussian, axis=-1)
        return gaussian, ops.sum(shares * (posteriors - self._log_shares()), axis=-1)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.num_clusters)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, GaussianMixture)}
