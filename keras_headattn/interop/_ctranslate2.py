"""Writing Transformers for CTranslate2."""

import pathlib
import secrets
import shutil
from typing import Any

import numpy as np
from keras import layers

from keras_headattn._files import Path, remove_halves, sync
from keras_headattn._optional import optional_import
from keras_headattn.decoding import Shortlist
from keras_headattn.decoding._shortlist import check_shortlist
from keras_headattn.interop._copying import store
from keras_headattn.interop._plain import (
    check_normalization,
    check_plain,
    check_tokenizers,
    plain_parts,
    position_tables,
    refuse,
    start_id,
    tokens_of,
)
from keras_headattn.layers import FeedForward, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.models import Transformer

ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh", "sigmoid": "Sigmoid",
}  # fmt: skip
STACKS = {"encoder": "source", "decoder": "target"}
PROJECTIONS = ("query", "key", "value", "attention_output")
GROUPED = (MultiHeadAttention, GroupedQueryAttention)


def to_ctranslate2(
    model: Transformer,
    folder: Path,
    source_tokenizer: Any,
    target_tokenizer: Any,
    quantization: str | None = None,
    shortlist: Shortlist | None = None,
) -> None:
    """Writes a `Transformer` as a model of CTranslate2, which translates tokens.

    Layers that equal multi-head attention, such as summed interacting heads, become it. `docs/take_elsewhere.md` shows
    the calls that give this library's translations. A model with sinusoidal positions takes up to 1,024 tokens there.

    Args:
        model: `Transformer` with sinusoidal, learned or no positions.
        folder: str or path of a new or empty folder; written in full or not at all.
        source_tokenizer, target_tokenizer: `SentencePieceTokenizer`.
        quantization: "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16" or
            "float32", the type of large matrices. Default `None`: float32.
        shortlist: `decoding.Shortlist`, for translations with `use_vmap=True`; they have no limit to its ids. Default
            `None`: none.

    Raises:
        FileExistsError: if there are files in the folder.
        ValueError: if CTranslate2 has no equivalent, such as for other attention.
        ImportError: if ctranslate2 is not installed.

    ```python
    to_ctranslate2(model, "ct2", pair.source, pair.target, quantization="int8")
    ctranslate2.Translator("ct2").translate_batch([["▁two", "▁cats"]], beam_size=4)
    ```
    """
    specs, folder = optional_import("ctranslate2", "ctranslate2").specs, pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"`folder` must be new or empty. Received: folder={str(folder)!r}")
    kinds = specs.model_spec.ACCEPTED_MODEL_TYPES
    if quantization not in (None, *kinds):
        raise ValueError(
            f"`quantization` must be None or one of {', '.join(kinds)}. Received: quantization={quantization!r}"
        )
    if not isinstance(model, Transformer):
        raise ValueError(f"`model` must be a Transformer. Received: model={model!r}")
    check_tokenizers(model, source_tokenizer, target_tokenizer)
    spec = _spec(specs, model)
    _name_tokens(spec, source_tokenizer, target_tokenizer)
    check_shortlist(shortlist, model)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_halves(folder.parent, f"{folder.name}.")
    half = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    half.mkdir()
    try:
        spec.save(str(half))
        if shortlist is not None:
            text = "".join(_vocabulary_map(shortlist, source_tokenizer, target_tokenizer))
            (half / "vmap.txt").write_text(text, encoding="utf-8")
        for path in half.iterdir():
            sync(path)
        half.replace(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    sync(folder.parent)


def _name_tokens(spec, source, target):
    """Sets the vocabularies and special tokens."""
    spec.register_source_vocabulary(tokens_of(source))
    spec.register_target_vocabulary(tokens_of(target))
    begin, spec.config.eos_token = (target.id_to_token(index) for index in (start_id(target), target.eos_id))
    spec.config.bos_token = spec.config.decoder_start_token = begin
    spec.config.unk_token = target.id_to_token(target.unk_id)
    spec.config.add_source_bos, spec.config.add_source_eos = source.add_bos, source.add_eos


def _vocabulary_map(shortlist, source, target):
    """Yields the lines of CTranslate2's map: the tokens of every sentence, then those of each source token.

    The end symbol, which CTranslate2 adds to sources, is not looked up there: its tokens are in every sentence.
    """
    always = [*shortlist.always, *(shortlist.table[source.eos_id] if source.add_eos else ())]
    for name, ids in zip(["", *tokens_of(source)], [always, *shortlist.table], strict=True):
        if names := [target.id_to_token(int(index)) for index in ids if index]:
            yield f"{name}\t{' '.join(names)}\n"


def _spec(specs, model):
    """Returns the `TransformerSpec` with the weights of a model."""
    attentions, weights = plain_parts(model, GROUPED)
    check_normalization(model)
    check_plain(attentions.values(), use_bias=None, types=GROUPED)
    heads = {stack: _heads(stack, attentions, model.hidden_dim) for stack in STACKS}
    norm, feed_forward = (model.templates[name].layer for name in ("norm", "feed_forward"))
    activation = getattr(getattr(feed_forward, "activation", None), "__name__", "none")
    if type(feed_forward) is not FeedForward or activation not in ACTIVATIONS:
        refuse(f"a FeedForward with {', '.join(ACTIVATIONS)}", f"{type(feed_forward).__name__} with {activation}")
    if not isinstance(norm, (layers.LayerNormalization, layers.RMSNormalization)):
        refuse("layer normalisation and RMS normalisation", type(norm).__name__)
    options = dict(
        pre_norm=model.normalization == "pre",
        activation=getattr(specs.Activation, ACTIVATIONS[activation]),
        ffn_glu=feed_forward.gated,
        rms_norm=isinstance(norm, layers.RMSNormalization),
    )
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(model.num_layers, **heads["encoder"], **options),
        specs.TransformerDecoderSpec(model.num_decoder_layers, **heads["decoder"], **options),
    )
    spec.config.layer_norm_epsilon = norm.epsilon
    _fill(spec, model, weights | position_tables(model))
    return spec


def _heads(stack, attentions, width):
    """Returns the numbers of heads of a stack, which must be the same in all its layers."""
    sizes = {
        (layer.num_heads, getattr(layer, "num_key_value_heads", layer.num_heads), layer.key_dim)
        for path, layer in attentions.items()
        if path.startswith(stack)
    }
    if len(sizes) > 1:
        refuse(f"the same heads in all layers of the {stack}", f"(heads, key heads, key_dim) of {sorted(sizes)}")
    ((count, groups, key_dim),) = sizes
    options = {"num_heads": count} | ({} if groups == count else {"num_heads_kv": groups})
    return options | ({} if count * key_dim == width else {"head_dim": key_dim})


def _fill(spec, model, weights):
    """Moves weights by name into a specification."""

    def linear(into, *names):
        into.weight = np.concatenate(
            [store(f"{name}/kernel", weights.pop(f"{name}/kernel"), "torch") for name in names]
        )
        if f"{names[0]}/bias" in weights:
            into.bias = np.concatenate([weights.pop(f"{name}/bias").reshape(-1) for name in names])

    def norm(into, name):
        rms_norm = f"{name}/scale" in weights
        into.gamma = weights.pop(f"{name}/scale" if rms_norm else f"{name}/gamma")
        if not rms_norm:
            into.beta = weights.pop(f"{name}/beta")

    for stack, side in STACKS.items():
        part = getattr(spec, stack)
        part.position_encodings.encodings = weights.pop(f"{side}_positions/embeddings")
        if model.normalization == "pre":
            norm(part.layer_norm, f"{stack}_norm")
        for i, layer in enumerate(part.layer):
            block = f"{stack}_{i}"
            query, key, value, output = (f"{block}/attention/{name}" for name in PROJECTIONS)
            linear(layer.self_attention.linear[0], query, key, value)
            linear(layer.self_attention.linear[1], output)
            norm(layer.self_attention.layer_norm, f"{block}/attention_norm")
            if stack == "decoder":
                query, key, value, output = (f"{block}/cross_attention/{name}" for name in PROJECTIONS)
                for into, names in zip(layer.attention.linear, ([query], [key, value], [output]), strict=True):
                    linear(into, *names)
                norm(layer.attention.layer_norm, f"{block}/cross_attention_norm")
            for into, name in (("linear_0", "inner"), ("linear_0_noact", "gate"), ("linear_1", "outer")):
                if hasattr(layer.ffn, into):
                    linear(getattr(layer.ffn, into), f"{block}/feed_forward/{name}")
            norm(layer.ffn.layer_norm, f"{block}/feed_forward_norm")
    target = weights.pop("target_embedding/embeddings")
    spec.decoder.embeddings.weight = target
    spec.encoder.embeddings[0].weight = weights.pop("source_embedding/embeddings", target)
    if model.tie_output:
        spec.decoder.projection.weight = target
        if model.output_bias:
            spec.decoder.projection.bias = weights.pop("output_bias")
    else:
        linear(spec.decoder.projection, "output_projection")
    if weights:
        refuse("no weight of this name", min(weights))
