import dataclasses
from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean, check_number, check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._gaussian_mixture import GaussianMixture
from keras_headattn.layers._intermediates import is_capturing, record
from keras_headattn.layers._state import CallState, State
from keras_headattn.ops import cluster_diversity, kept_information, shared_information

ANNEALING = 5e-4  # of gamma, per step
LEAST = 1e-30  # of S, which then has no effect on a query that shares no cluster with any key
LOSSES = ("shared_information", "kept_information", "divergence", "diversity")
MEMORY = 100  # steps that running averages cover


@register_keras_serializable(package="keras_headattn")
class DisentangledMaskAttention(Attention):
    """Attention that favours tokens of the same learned cluster (disentangled mask attention).

    A mixture of Gaussians clusters each head's part z of the inputs. Two tokens are in the same cluster with the
    probability `S_ij = sum_c p(c | z_i) p(c | z_j)`, which weighs attention:

        weights = (1 - gamma) softmax(logits) + gamma softmax(logits + log S)
        gamma = 1 - max(1 - alpha, exp(-0.0005 t)),  t batches of training so far

    A second mixture, shared by the heads, clusters the queries. Training adds these losses, each times its weight,
    averaged over the tokens of a sentence and over sentences:

    | loss | |
    |---|---|
    | `shared_information` | `ops.shared_information` of the queries, summed over pairs of heads |
    | `kept_information` | `ops.kept_information` of inputs and queries, summed over heads and subtracted |
    | `divergence` | of Gaussians about z and about the query from their mixtures, summed over heads |
    | `diversity` | `ops.cluster_diversity` of both mixtures, summed over heads |

    Running averages are weights that are not trained: `loss_averages`; `cluster_use`, each cluster's share of the
    tokens, one row per head and a last one for queries; and `cluster_entropy`, the entropy of a token's cluster in
    nats. `training.ClusterReport` reads them.

    Further intermediates: `"posteriors"` and `"key_posteriors"`, each head's cluster probabilities of each token.

    Source: "Disentangled mask attention in Transformer", eqs. 5 to 14. (The sign of gamma's exponent is a misprint
    there.)

    Args:
        num_clusters: number of clusters of each mixture, `C`.
        alpha: limit of gamma in training.
        shared_information, kept_information, divergence, diversity: weights of the losses, for a main loss that is a
            mean over tokens; see docs/disentangled.md.
        leave_one_out: see `ops.shared_information`.
        centre_gradient: factor of the gradient of the cluster centres.
        variance: of the Gaussians about z and the queries.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. With the `role` `"decoder"`
            S is used in training only. The widths of query and key must be multiples of `num_heads`; if they differ,
            keys have their own mixture.

    >>> layer = DisentangledMaskAttention(num_heads=4, key_dim=4, num_clusters=3)
    >>> x = keras.random.normal((2, 5, 16))
    >>> y = layer(x, x, training=True)
    >>> len(layer.losses), float(layer.gamma()) > 0
    (1, True)
    """

    head_arguments = ()  # the inputs have a part for each

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        num_clusters: int = 4,
        alpha: float = 0.5,
        shared_information: float = 1e-5,
        kept_information: float = 1e-3,
        divergence: float = 1e-5,
        diversity: float = 1e-3,
        leave_one_out: bool = False,
        centre_gradient: float = 10.0,
        variance: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.num_clusters = check_positive("num_clusters", num_clusters)
        self.alpha = check_number("alpha", alpha, least=0, most=1)
        self.shared_information = check_number("shared_information", shared_information, least=0)
        self.kept_information = check_number("kept_information", kept_information, least=0)
        self.divergence = check_number("divergence", divergence, least=0)
        self.diversity = check_number("diversity", diversity, least=0)
        self.leave_one_out = check_boolean("leave_one_out", leave_one_out)
        self.centre_gradient = check_number("centre_gradient", centre_gradient, least=0)
        self.variance = check_number("variance", variance, above=0)

    # Building

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        widths = self.widths
        self.mixture = self._mixture("mixture", widths["query"], self.num_heads)
        self.key_mixture = self.mixture
        if widths["key"] != widths["query"]:
            self.key_mixture = self._mixture("key_mixture", widths["key"], self.num_heads)
        self.query_mixture = self._mixture("query_mixture", self.key_dim * self.num_heads, None)
        state = dict(trainable=False, initializer="zeros", dtype="float32", autocast=False)
        self.steps = self.add_weight(name="steps", shape=(), aggregation="only_first_replica", **state)
        state["aggregation"] = "mean"
        self.loss_averages = self.add_weight(name="loss_averages", shape=(len(LOSSES),), **state)
        mixtures = self.num_heads + 1
        self.cluster_use = self.add_weight(name="cluster_use", shape=(mixtures, self.num_clusters), **state)
        self.cluster_entropy = self.add_weight(name="cluster_entropy", shape=(mixtures,), **state)

    def check_widths(self) -> None:
        for name in ("query", "key"):
            width = self.widths[name]
            if width % self.num_heads:
                raise ValueError(
                    f"The width of `{name}` must be a multiple of num_heads={self.num_heads}. Received: {width}"
                )
        if self.kept_information and self.widths["query"] != self.num_heads * self.key_dim:
            raise ValueError(
                "`kept_information` compares a head's part of the inputs with its queries, which must have the same "
                "width: set num_heads * key_dim to the width of `query`, or kept_information to 0. "
                f"Received: {self.num_heads} * {self.key_dim} and {self.widths['query']}"
            )

    def _mixture(self, name, width, heads):
        mixture = GaussianMixture(self.num_clusters, heads, self.centre_gradient, dtype=self.dtype_policy, name=name)
        mixture.build((None, self.num_heads, None, width // self.num_heads))
        return mixture

    def _by_head(self, x):
        batch, length = ops.shape(x)[:2]
        return ops.swapaxes(ops.reshape(x, (batch, length, self.num_heads, x.shape[-1] // self.num_heads)), 1, 2)

    def posteriors(self, x: Tensor) -> Tensor:
        """Returns each head's probabilities of the clusters of a query, `(B, h, n, num_clusters)`.

        Args:
            x: `(B, n, D)`.
        """
        return _posteriors(self.mixture, self._by_head(x))

    def key_posteriors(self, key: Tensor) -> Tensor:
        """Returns each head's probabilities of the clusters of a key, `(B, h, m, num_clusters)`.

        Args:
            key: `(B, m, D)`.
        """
        return _posteriors(self.key_mixture, self._by_head(key))

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        entry = super().project_key_value(key, value, state)
        is_for_a_cache = state.cache is not None or state.query is None
        if self.role == "decoder" or not is_for_a_cache:
            return entry
        return entry | {"posteriors": ops.cast(self.key_posteriors(key), self.compute_dtype)}

    # Attention

    def adds_losses(self, training: bool | None = None) -> bool:
        return bool(training) or super().adds_losses(training)

    def gamma(self) -> Tensor:
        """Returns gamma, the current share of the weights under S: a scalar."""
        return 1 - ops.maximum(1 - self.alpha, ops.exp(-ANNEALING * self.steps))

    def before_attend(
        self, query: Tensor, entry: dict[str, Tensor], state: CallState
    ) -> tuple[dict[str, Tensor], CallState]:
        trains = state.training and state.cache is None
        if not trains and self.role == "decoder":
            if is_capturing() and state.key is not None:  # a cache has no keys to assign
                record(self, posteriors=self.posteriors(state.query), key_posteriors=self.key_posteriors(state.key))
            return entry, state
        inputs = self._by_head(state.query)
        densities = self.mixture(inputs)
        posteriors = ops.exp(self.mixture.log_posteriors(densities))
        keys = self._key_posteriors(posteriors, entry, state)
        record(self, posteriors=posteriors, key_posteriors=keys)
        gamma = ops.broadcast_to(self.gamma(), (1, 1, ops.shape(query)[2], 1))
        if trains:
            self._add_losses(inputs, densities, posteriors, query, state.masks.real_queries())
            self.steps.assign_add(1)
        rows = {"posteriors": posteriors, "gamma": gamma}
        return entry | {"posteriors": keys}, dataclasses.replace(state, rows=rows)

    def _key_posteriors(self, posteriors, entry, state):
        if state.cache is not None:
            return entry["posteriors"]
        return posteriors if state.key is state.query else self.key_posteriors(state.key)

    def weigh(self, logits: Tensor, entry: dict[str, Tensor], state: State) -> Tensor:
        if "posteriors" not in state.rows:
            return super().weigh(logits, entry, state)
        posteriors, gamma = state.rows["posteriors"], state.rows["gamma"]
        # The probability to be in the same cluster, S: (B, h, n, m)
        same = ops.matmul(posteriors, ops.swapaxes(ops.cast(entry["posteriors"], posteriors.dtype), -1, -2))
        wide = ops.cast(logits, same.dtype)  # in 16 bits, small weights would be lost
        weights = super().weigh(wide, entry, state)
        masked = super().weigh(wide + ops.log(ops.maximum(same, LEAST)), entry, state)
        return ops.cast(weights + ops.cast(gamma, wide.dtype) * (masked - weights), logits.dtype)

    def _add_losses(self, inputs, densities, posteriors, query, tokens):
        query_densities = self.query_mixture(query)
        log_posteriors = self.query_mixture.log_posteriors(query_densities)
        query_posteriors = ops.exp(log_posteriors)
        losses = dict.fromkeys(LOSSES, ops.zeros(ops.shape(tokens)[:1], posteriors.dtype))  # of each sentence
        if self.shared_information:
            information = shared_information(query_densities, log_posteriors, tokens, self.leave_one_out)
            losses["shared_information"] = ops.sum(information, axis=(1, 2))
        if self.kept_information:
            of_inputs = _posteriors(self.query_mixture, inputs)
            losses["kept_information"] = ops.sum(kept_information(query_posteriors, of_inputs, tokens), axis=1)
        if self.divergence:
            of_inputs = self.mixture.divergences(densities, self.variance)
            of_queries = self.query_mixture.divergences(query_densities, self.variance)
            losses["divergence"] = _mean(ops.sum(sum((*of_inputs, *of_queries)), axis=1), tokens)
        if self.diversity:
            diversity = cluster_diversity(posteriors, tokens) + cluster_diversity(query_posteriors, tokens)
            losses["diversity"] = ops.sum(diversity, axis=1)
        sentences = ops.any(tokens, axis=1)
        means = _mean(ops.stack([losses[name] for name in LOSSES]), sentences[None])
        weights = [self.shared_information, -self.kept_information, self.divergence, self.diversity]
        self.add_loss(ops.sum(means * ops.convert_to_tensor(weights, means.dtype)))
        self._remember(self.loss_averages, means)
        counted = ops.cast(tokens, posteriors.dtype)
        counts = ops.sum(counted, axis=1, keepdims=True) * ops.sum(ops.cast(sentences, posteriors.dtype))
        shares = counted / ops.maximum(counts, 1)
        self._remember(self.cluster_use, _by_mixture(posteriors, query_posteriors, shares))
        self._remember(
            self.cluster_entropy, _by_mixture(_entropy(posteriors), _entropy(query_posteriors), shares)[:, 0]
        )

    def _remember(self, average, value):
        share = 1 / ops.minimum(self.steps + 1, MEMORY)
        value = ops.stop_gradient(ops.cast(value, average.dtype))
        average.assign(average + share * (value - average))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, DisentangledMaskAttention)}


def _posteriors(mixture, x):
    return ops.exp(mixture.log_posteriors(mixture(x)))


def _entropy(posteriors):
    """Returns the entropy in nats, `(..., 1)`."""
    return -ops.sum(posteriors * ops.log(ops.maximum(posteriors, LEAST)), axis=-1, keepdims=True)


def _by_mixture(of_heads, of_queries, shares):
    """Averages `(B, h, n, c)` over tokens with shares `(B, n)`: `(h + 1, c)`, queries last."""
    measured = ops.concatenate([of_heads, ops.mean(of_queries, axis=1, keepdims=True)], axis=1)
    return ops.sum(measured * shares[:, None, :, None], axis=(0, 2))


def _mean(x, mask):
    """Averages over the last axis under a mask that broadcasts to `x`; 0 where nothing is kept."""
    kept = ops.cast(mask, x.dtype)
    return ops.sum(ops.where(mask, x, ops.zeros_like(x)), axis=-1) / ops.maximum(ops.sum(kept, axis=-1), 1)
