"""Sizes of models read off tensors, or checked against them."""

import re

from keras_headattn.interop._copying import check_fit


def _count(tensors, pattern):
    numbers = {int(match[1]) for name in tensors if (match := re.match(pattern, name))}
    if not numbers:
        raise ValueError(f"The checkpoint has no tensor like {pattern}. Received: {', '.join(sorted(tensors)[:3])}")
    if len(numbers) <= max(numbers):
        raise ValueError(f"The checkpoint lacks layers. Received: {len(numbers)} like {pattern}, up to {max(numbers)}")
    return len(numbers)


def check_bert_sizes(config, arguments, tensors):
    """Checks the sizes of a configuration against the tensors, before memory is allocated."""
    width, inner = arguments["hidden_dim"], arguments["intermediate_dim"]
    embedded = arguments["embedding_dim"] or width
    shapes = {
        "embeddings.word_embeddings.weight": (arguments["vocabulary_size"], embedded),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], embedded),
        "encoder.layer.0.attention.self.query.weight": (width, width),
        "encoder.layer.0.intermediate.dense.weight": (inner, width),
    }
    if arguments["num_segments"]:
        shapes["embeddings.token_type_embeddings.weight"] = (arguments["num_segments"], embedded)
    check_sizes(tensors, shapes, {"encoder.layer.{}.attention.self.query.weight": arguments["num_layers"]})


def check_t5_sizes(arguments, tensors):
    width, heads = arguments["hidden_dim"], arguments["num_heads"]
    first, wi = "encoder.block.0.layer.0.SelfAttention", "wi_0" if arguments["gated"] else "wi"
    shapes = {
        "shared.weight": (arguments["vocabulary_size"], width),
        f"{first}.q.weight": (heads * arguments["key_dim"], width),
        f"{first}.relative_attention_bias.weight": (arguments["num_buckets"], heads),
        f"encoder.block.0.layer.1.DenseReluDense.{wi}.weight": (arguments["intermediate_dim"], width),
    }
    counts = {"encoder": arguments["num_layers"], "decoder": arguments["num_decoder_layers"]}
    names = {f"{side}.block.{{}}.layer.0.SelfAttention.q.weight": count for side, count in counts.items() if count}
    check_sizes(tensors, shapes, names)


def check_translator_sizes(arguments, tensors):
    width, source = arguments["hidden_dim"], arguments["source_vocabulary_size"]
    target = arguments["target_vocabulary_size"]
    shapes = {
        "model.shared.weight": (target or source, width),
        "model.encoder.layers.0.fc1.weight": (arguments["intermediate_dim"], width),
    }
    if target:
        shapes["model.encoder.embed_tokens.weight"] = source, width
    counts = {"encoder": arguments["num_layers"], "decoder": arguments["num_decoder_layers"]}
    check_sizes(tensors, shapes, {f"model.{side}.layers.{{}}.self_attn.q_proj.weight": n for side, n in counts.items()})


def check_sizes(tensors, shapes, counts):
    """Raises a ValueError if shapes or numbers of layers differ from the tensors'."""
    last = [name.format(count - 1) for name, count in counts.items()]
    missing = [name for name in (*shapes, *last) if name not in tensors]
    if sum(counts.values()) > len(tensors):
        missing += [f"some of {', '.join(map(str, counts.values()))} layers"]
    misshapen = [
        f"{name} {tuple(tensors[name].shape)}, not {shape}"
        for name, shape in shapes.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    check_fit({"missing": missing, "of another shape": misshapen})


def bert_sizes(tensors, kind):
    """Returns Hugging Face's configuration, with 64 units a head."""
    try:
        words, width = tensors["embeddings.word_embeddings.weight"].shape
        hidden = len(tensors["encoder.layer.0.attention.self.query.bias"])
        return dict(
            model_type=kind,
            vocab_size=words,
            embedding_size=width,
            hidden_size=hidden,
            intermediate_size=len(tensors["encoder.layer.0.intermediate.dense.bias"]),
            num_hidden_layers=_count(tensors, r"encoder\.layer\.(\d+)\."),
            num_attention_heads=max(1, hidden // 64),
            max_position_embeddings=len(tensors["embeddings.position_embeddings.weight"]),
            type_vocab_size=len(tensors["embeddings.token_type_embeddings.weight"]),
        )
    except KeyError as error:
        raise ValueError(f"The checkpoint lacks a tensor whose shape is needed. Received: no {error}") from error


def t5_sizes(tensors, path):
    """Returns the arguments of `T5`. Tensors with a gate are T5 1.1's; without an output layer it is tied."""
    block = "encoder.block.0.layer"
    try:
        words, hidden = tensors["shared.weight"].shape
        buckets, heads = tensors[f"{block}.0.SelfAttention.relative_attention_bias.weight"].shape
        gated = f"{block}.1.DenseReluDense.wi_0.weight" in tensors
        return dict(
            vocabulary_size=words,
            hidden_dim=hidden,
            intermediate_dim=len(tensors[f"{block}.1.DenseReluDense.{'wi_0' if gated else 'wi'}.weight"]),
            num_layers=_count(tensors, r"encoder\.block\.(\d+)\."),
            num_decoder_layers=_count(tensors, r"decoder\.block\.(\d+)\."),
            num_heads=heads,
            key_dim=len(tensors[f"{block}.0.SelfAttention.q.weight"]) // heads,
            num_buckets=buckets,
            gated=gated,
            activation="gelu_tanh" if gated else "relu",
            tie_output="lm_head.weight" not in tensors,
        )
    except KeyError as error:
        raise ValueError(
            f"The checkpoint in {path} lacks a tensor whose shape is needed. Received: no {error}"
        ) from error
