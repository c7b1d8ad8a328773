"""KerasHub's backbones."""

from typing import Any

import keras
import numpy as np

from keras_headattn._files import read_json
from keras_headattn._optional import optional_import
from keras_headattn._types import AttentionLike
from keras_headattn.interop._copying import copy_weights
from keras_headattn.interop._plain import check_plain, plain_parts, refuse
from keras_headattn.interop._tables import KERAS_HUB, T5, T5_GATED
from keras_headattn.models import T5 as T5Model
from keras_headattn.models import Bert

# Arguments of each class that its configuration lacks.
ENCODERS = {
    "BertBackbone": dict(activation="gelu_tanh", norm_epsilon=1e-12),
    "ElectraBackbone": dict(activation="gelu_tanh", norm_epsilon=1e-12),
    "RobertaBackbone": dict(
        activation="gelu", norm_epsilon=1e-5, num_segments=0, pad_id=1, skip_padding=True, pooler=False
    ),
}
SAME = ("num_layers", "hidden_dim", "intermediate_dim", "dropout", "num_segments", "embedding_dim")


def from_keras_hub(
    backbone: keras.Model, attention: AttentionLike = "multi_head", return_report: bool = False, **overrides: Any
) -> Any:
    """Makes a `Bert` or `T5` from a KerasHub backbone, with its weights and any attention.

    Padding is marked by `pad_id`, 0, or 1 for RoBERTa, instead of KerasHub's `padding_mask`.

    Args:
        backbone: `BertBackbone`, `RobertaBackbone`, `ElectraBackbone` or `T5Backbone` of keras_hub.
        attention: as in the model. Default `"multi_head"`.
        return_report: bool, True to return the `Report`, too. Default False.
        **overrides: arguments of the model in place of the backbone's.

    Returns:
        The model, or with `return_report` `(model, report)`.

    Raises:
        ValueError: if the backbone is of another class or does not fit.

    ```python
    backbone = keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased")
    model = from_keras_hub(backbone, attention="evolving")
    ```
    """
    name = type(backbone).__name__
    if name == "T5Backbone":
        model, tensors, names = _of_t5(backbone, attention, overrides)
    elif name in ENCODERS:
        config = backbone.get_config()
        arguments = {key: config[key] for key in SAME if key in config}
        arguments |= dict(
            vocabulary_size=config.get("vocabulary_size") or config["vocab_size"],
            num_heads=config["num_heads"],
            max_length=config["max_sequence_length"],
            attention_dropout=config["dropout"],
        )
        model = Bert(**{**arguments, **ENCODERS[name], "attention": attention, **overrides})
        tensors, names = {path: np.array(weight) for path, weight in _variables(backbone).items()}, KERAS_HUB
    else:
        known = ", ".join((*ENCODERS, "T5Backbone"))
        raise ValueError(f"`backbone` must be of KerasHub's {known}. Received: {backbone!r}")
    report = copy_weights(model, tensors, names)
    return (model, report) if return_report else model


def _variables(backbone):
    """Returns variables by path; RoBERTa's embeddings are in a layer of their own."""
    return {weight.path.removeprefix("embeddings/"): weight for weight in backbone.weights}


def from_preset(path, attention, **overrides):
    """Makes a model from a folder that KerasHub wrote, and its `Report`."""
    keras_hub = optional_import("keras_hub")
    _check_preset(path)
    try:
        backbone = keras_hub.models.Backbone.from_preset(str(path))
    except Exception as error:  # KerasHub raises whatever its parts raise
        reason = str(error).strip().partition("\n")[0][:160]
        raise ValueError(f"KerasHub cannot read the preset. Received: {path} ({reason})") from error
    return from_keras_hub(backbone, attention, return_report=True, **overrides)


def _check_preset(path):
    """Refuses a configuration that asks for more memory than its weights explain."""
    stored = sum(file.stat().st_size for file in path.glob("*.weights.h5") if file.is_file())
    config = read_json(path / "config.json").get("config")
    config = config if isinstance(config, dict) else {}
    for key in ("hidden_dim", "vocabulary_size", "vocab_size", "max_sequence_length", "intermediate_dim", "num_layers"):
        sizes = config.get(key), config.get("hidden_dim")
        if all(isinstance(size, int) for size in sizes) and sizes[0] * sizes[1] > stored:
            raise ValueError(f"`{key}` is larger than the weights explain. Received: {key}={config[key]} in {path}")


def to_keras_hub(model: Bert) -> keras.Model:
    """Makes a KerasHub backbone with the weights of an encoder.

    Args:
        model: `Bert` with multi-head attention, or a layer that equals it, and the other settings of KerasHub's class.

    Returns:
        `RobertaBackbone` if positions skip padding, `ElectraBackbone` if embeddings have another width and there is a
        pooler, else `BertBackbone`, which needs a pooler and segments.

    Raises:
        ValueError: if KerasHub has no equivalent.
        ImportError: if keras-hub is not installed.

    ```python
    backbone = to_keras_hub(from_pretrained("bert-base-uncased", activation="gelu_tanh"))
    backbone.save_to_preset("preset")
    ```
    """
    if not isinstance(model, Bert):
        refuse("only encoders, keras_headattn.models.Bert", type(model).__name__)
    models = optional_import("keras_hub").models
    attentions, model_weights = plain_parts(model)
    check_plain(attentions.values(), model.hidden_dim)
    wide = model.embedding_dim != model.hidden_dim
    name = "RobertaBackbone" if model.skip_padding else "ElectraBackbone" if wide else "BertBackbone"
    fixed = {"pad_id": 0, "skip_padding": False, **ENCODERS[name]}
    got = {key: getattr(model, key) for key in fixed if key != "pooler"} | {"pooler": model.pooler is not None}
    fixed = {"pooler": True, **fixed}
    if different := {key: got[key] for key in fixed if got[key] != fixed[key]}:
        needed = ", ".join(f"{key}={fixed[key]!r}" for key in different)
        refuse(f"{needed} in {name}", ", ".join(f"{key}={value!r}" for key, value in different.items()))
    arguments = {key: getattr(model, key) for key in SAME if key not in fixed}
    if not model.max_length:
        refuse(f"learned positions in {name}", "max_length=0")
    arguments |= dict(num_heads=model.blocks[0].attention.num_heads, max_sequence_length=model.max_length)
    arguments["vocab_size" if name == "ElectraBackbone" else "vocabulary_size"] = model.vocabulary_size
    if name != "ElectraBackbone":
        arguments.pop("embedding_dim")
    backbone = getattr(models, name)(**arguments)
    theirs = _variables(backbone)
    weights = {KERAS_HUB.find(ours): weight for ours, weight in model_weights.items()}
    if weights.keys() != theirs.keys():
        refuse(f"the weights of {name}", ", ".join(sorted(map(str, weights.keys() ^ theirs.keys()))))
    for path, weight in weights.items():
        theirs[path].assign(weight)
    return backbone


def _of_t5(backbone, attention, overrides):
    """Makes a `T5`, and returns it with weights by Hugging Face's names, as the backbone's own do not tell its stacks
    apart."""
    config = backbone.get_config()
    gated = config["use_gated_activation"]
    activation = getattr(backbone.activation, "__name__", str(backbone.activation))
    model = T5Model(
        **{
            "vocabulary_size": config["vocabulary_size"],
            **{key: config[key] for key in ("hidden_dim", "intermediate_dim", "num_layers", "num_heads", "dropout")},
            "key_dim": config["key_value_dim"] or config["hidden_dim"] // config["num_heads"],
            "activation": {"gelu_approximate": "gelu_tanh"}.get(activation, activation),
            "gated": gated,
            "norm_epsilon": config["layer_norm_epsilon"],
            "tie_output": config["tie_embedding_weights"],
            "attention": attention,
            **overrides,
        }
    )
    table = backbone.token_embedding
    weights = {"shared": table.embeddings}
    if not model.tie_output:
        weights["lm_head"] = table.reverse_embeddings
    for side in ("encoder", "decoder"):
        weights[f"{side}.final_layer_norm"] = getattr(backbone, f"{side}_layer_norm").weight
        for index, layer in enumerate(getattr(backbone, f"{side}_transformer_layers")):
            weights |= _of_t5_block(layer, f"{side}.block.{index}.layer", gated, side == "decoder")
    transposed = (".q", ".k", ".v", ".o", ".wi", ".wi_0", ".wi_1", ".wo", "lm_head")
    tensors = {
        f"{name}.weight": np.array(weight).T if name.endswith(transposed) else np.array(weight)
        for name, weight in weights.items()
    }
    return model, tensors, T5_GATED if gated else T5


def _of_t5_block(layer, prefix, gated, is_decoder):
    parts = {"0.SelfAttention": (layer.self_attention, layer.self_attention_layer_norm)}
    if is_decoder:
        parts["1.EncDecAttention"] = layer.cross_attention, layer.cross_attention_layer_norm
    weights = {}
    for name, (attention, norm) in parts.items():
        for letter, projector in zip("qkvo", ("query", "key", "value", "output"), strict=True):
            weights[f"{prefix}.{name}.{letter}"] = getattr(attention, f"{projector}_projector").kernel
        weights[f"{prefix}.{name[0]}.layer_norm"] = norm.weight
        if getattr(attention, "use_relative_attention_bias", False):
            weights[f"{prefix}.{name}.relative_attention_bias"] = attention.relative_attention_bias
    last = f"{prefix}.{len(parts)}"
    weights[f"{last}.DenseReluDense.{'wi_0' if gated else 'wi'}"] = layer.input_projector.kernel
    if gated:
        weights[f"{last}.DenseReluDense.wi_1"] = layer.gate_projector.kernel
    weights[f"{last}.DenseReluDense.wo"] = layer.output_projector.kernel
    weights[f"{last}.layer_norm"] = layer.layer_norm.weight
    return weights
