"""Transformers as Hugging Face's Marian, M2M100 and Blenderbot, with their tokenizers."""

import base64
import re

import numpy as np
from keras import layers

from keras_headattn.interop._plain import (
    activation_there,
    check_normalization,
    check_plain,
    check_tokenizers,
    plain_parts,
    position_tables,
    refuse,
    start_id,
    tensors_of,
    tokens_of,
)
from keras_headattn.interop._tables import MARIAN, exchange_padding
from keras_headattn.layers import FeedForward
from keras_headattn.positions import SinusoidalPositions

CLASSES = {
    "marian": "MarianMTModel",
    "m2m_100": "M2M100ForConditionalGeneration",
    "blenderbot": "BlenderbotForConditionalGeneration",
}
EPSILON = 1e-5  # of all layer normalisation there


def of_transformer(model, tokenizers):
    """Returns the configuration, the tensors and the tokenizer's files of a `Transformer`.

    Without tokenizers it is a Marian or M2M100 of `from_pretrained`, which swaps padding and id 0.
    """
    attentions, weights = plain_parts(model)
    kind = _check(model, attentions, tokenizers)
    positions, norm, feed_forward = (model.templates[name].layer for name in ("positions", "norm", "feed_forward"))
    separate, size = model.target_vocabulary_size is not None, _target_size(model)
    files, length = {}, 512 if kind == "marian" else 1024
    if tokenizers:
        files = _tokenizer_files(model, *tokenizers)
        pad_id, start, end = 0, start_id(tokenizers[1]), tokenizers[1].eos_id
        if kind != "marian" or not _are_marians(positions) or norm.epsilon != EPSILON:
            weights |= position_tables(model)
            length = len(weights["source_positions/embeddings"])
        _scale(weights, model)
    elif kind == "marian":
        pad_id, start, end = size - 1, size - 1, 0
    else:
        pad_id, start, end = positions.first - 1, 2, 2
    tensors = _tensors(model, weights, kind, swapped=None if tokenizers else pad_id)
    heads = model.encoder_blocks[0].attention.num_heads
    width = model.encoder_blocks[0].feed_forward.inner.units
    sizes = dict(layers=model.num_layers, attention_heads=heads, ffn_dim=width)
    config = dict(
        model_type=kind,
        architectures=[CLASSES[kind]],
        vocab_size=model.source_vocabulary_size,
        d_model=model.hidden_dim,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()},
        activation_function=activation_there(feed_forward.activation),
        dropout=model.dropout,
        attention_dropout=model.encoder_blocks[0].attention.dropout,
        activation_dropout=feed_forward.dropout,
        scale_embedding=True,
        max_position_embeddings=length,
        pad_token_id=pad_id,
        eos_token_id=end,
        bos_token_id=start if tokenizers else 0,
        forced_eos_token_id=end if model.force_end else None,
        decoder_start_token_id=start,
        is_encoder_decoder=True,
        tie_word_embeddings=model.tie_output,
    )
    config["decoder_layers"] = model.num_decoder_layers
    if model.suppress:
        places = {} if tokenizers else {0: pad_id, pad_id: 0}
        config["bad_words_ids"] = [[places.get(token, token)] for token in model.suppress]
    if kind == "marian":
        config |= dict(share_encoder_decoder_embeddings=not separate, decoder_vocab_size=size)
    if kind == "blenderbot":
        config["encoder_no_repeat_ngram_size"] = 0
    return config, tensors, files


def _target_size(model):
    return model.target_vocabulary_size or model.source_vocabulary_size


def _check(model, attentions, tokenizers):
    """Returns the model type, and refuses a model that none of them can express."""
    if not tokenizers:
        check_plain(attentions.values(), model.hidden_dim)
        return _check_imported(model, attentions)
    check_plain(attentions.values(), model.hidden_dim, use_bias=None)
    _check_blocks(model, attentions)
    if model.normalization == "pre" and model.target_vocabulary_size is not None:
        sizes = f"{model.source_vocabulary_size}, {model.target_vocabulary_size}"
        refuse("pre-norm blocks with one vocabulary only; `to_ctranslate2` takes two", f"vocabularies of {sizes}")
    return "blenderbot" if model.normalization == "pre" else "marian"


def _check_blocks(model, attentions):
    check_normalization(model)
    norm, feed_forward = model.templates["norm"].layer, model.templates["feed_forward"].layer
    if type(norm) is not layers.LayerNormalization or not (norm.center and norm.scale and norm.epsilon > 0):
        names = [name for name in ("center", "scale", "epsilon") if hasattr(norm, name)]
        received = ", ".join([type(norm).__name__, *(f"{name}={getattr(norm, name)}" for name in names)])
        refuse("layer normalisation with `center`, `scale` and a positive epsilon", received)
    heads = sorted({layer.num_heads for layer in attentions.values()})
    if len(heads) > 1 or type(feed_forward) is not FeedForward or feed_forward.gated:
        received = f"heads {heads}, {type(feed_forward).__name__}, gated={getattr(feed_forward, 'gated', None)}"
        refuse("one number of heads and a plain feed-forward layer", received)


def _check_imported(model, attentions):
    """Returns the model type of a Marian or M2M100 of `from_pretrained`, and refuses other models."""
    positions, norm = model.templates["positions"].layer, model.templates["norm"].layer
    hint = "; other Transformers need `source_tokenizer` and `target_tokenizer`"
    if not isinstance(positions, SinusoidalPositions):
        refuse(f"sinusoidal positions{hint}", f"positions={positions!r}")
    is_marian = model.normalization == "post" and _are_marians(positions)
    if not is_marian and not (model.normalization == "pre" and positions.endpoint and positions.first > 0):
        refuse(
            f"the blocks and positions of Marian or of M2M100, see `from_pretrained`{hint}",
            f"normalization={model.normalization!r}, endpoint={positions.endpoint}, first={positions.first}",
        )
    if getattr(norm, "epsilon", None) != EPSILON:
        refuse(f"layer normalisation with an epsilon of 1e-5{hint}", f"{norm.name}, {getattr(norm, 'epsilon', None)}")
    _check_blocks(model, attentions)
    if not model.tie_output:
        refuse(f"a tied output{hint}", "tie_output=False")
    if not is_marian and (model.output_bias or model.target_vocabulary_size):
        refuse("one vocabulary and no output bias in M2M100", f"output_bias={model.output_bias}")
    if model.target_vocabulary_size not in (None, model.source_vocabulary_size):
        sizes = f"{model.source_vocabulary_size}, {model.target_vocabulary_size}"
        refuse(f"vocabularies of one size, as padding is the last of both{hint}", sizes)
    return "marian" if is_marian else "m2m_100"


def _are_marians(positions):
    """Returns True for the positions that Marian computes itself."""
    return isinstance(positions, SinusoidalPositions) and not positions.endpoint and positions.first == 0


def _scale(weights, model):
    """Scales weights so that layer normalisation with Hugging Face's epsilon computes what it did with the model's.

    Epsilon is added to a variance: a residual stream s times as large, with an epsilon s^2 times as large, is
    normalised to the same values. What writes to the stream is multiplied by s; what reads from it unnormalised, by
    1 / s.
    """
    scale = (EPSILON / model.templates["norm"].layer.epsilon) ** 0.5
    if scale == 1:
        return
    if model.normalization == "pre":
        last, norms, readers = "decoder_norm/", (), ()
    else:
        last = f"decoder_{model.num_decoder_layers - 1}/feed_forward_norm/"
        norms, readers = (r".*_norm/.*",), (r".*/(query|key|value|inner)/kernel",)
    writers = (r"(source|target)_(embedding|positions)/.*", r".*/(attention_output|outer)/.*", *norms)
    for name, weight in weights.items():
        if name.startswith(last):
            power = -1 if model.tie_output else 0
        else:
            power = any(re.fullmatch(pattern, name) for pattern in writers)
            power -= any(re.fullmatch(pattern, name) for pattern in readers)
        weights[name] = (weight * np.float64(scale) ** power).astype("float32")


def _tensors(model, weights, kind, swapped):
    """Returns the tensors by Hugging Face's names; `swapped` is the id of padding that changes places with id 0."""
    tensors, separate = tensors_of(weights, MARIAN), model.target_vocabulary_size is not None
    for name in [name for name in tensors if re.search(r"(_proj|fc[12])\.weight$", name)]:
        tensors.setdefault(name.removesuffix("weight") + "bias", np.zeros(len(tensors[name]), "float32"))
    if kind != "m2m_100":
        tensors.setdefault("final_logits_bias", np.zeros(_target_size(model), "float32"))
    for name in ("model.shared.weight", "model.encoder.embed_tokens.weight", "final_logits_bias"):
        if swapped is not None and name in tensors:
            tensors[name] = exchange_padding(tensors[name], swapped)
    if kind != "m2m_100":
        tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    if separate:
        tensors["model.decoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")
    if not (model.tie_output or separate):  # nothing is tied then
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_tokens.weight"] = np.array(tensors["model.shared.weight"])
    return tensors


def _tokenizer_files(model, source, target):
    """Returns the files of a `MarianTokenizer`, by name."""
    check_tokenizers(model, source, target)
    for side, tokenizer in (("source", source), ("target", target)):
        names = ("lowercase", "add_bos", "num_sentinels", "added_tokens")
        settings = {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name)}
        settings |= {} if tokenizer.add_eos else {"add_eos": False}
        if settings:
            received = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            refuse(f"a tokenizer without such settings; give `{side}_tokenizer` without them", received)
    vocabularies = [{token: index for index, token in enumerate(tokens_of(side))} for side in (source, target)]
    separate = model.target_vocabulary_size is not None
    if not separate and vocabularies[0] != vocabularies[1]:
        refuse("one vocabulary for both languages of a model with one embedding", "tokenizers with different tokens")
    settings = dict(
        tokenizer_class="MarianTokenizer",
        separate_vocabs=separate,
        pad_token=target.id_to_token(target.pad_id),
        unk_token=target.id_to_token(target.unk_id),
        eos_token=target.id_to_token(target.eos_id),
    )
    protos = [base64.b64decode(side.get_config()["proto"]) for side in (source, target)]
    files = {"source.spm": protos[0], "target.spm": protos[1], "vocab.json": vocabularies[0]}
    files |= {"target_vocab.json": vocabularies[1]} if separate else {}
    files |= {"tokenizer_config.json": settings}
    return files
