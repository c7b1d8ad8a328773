"""Sizes of checkpoints without a configuration, from the shapes of their tensors."""

import re


def _count(tensors, pattern):
    numbers = [int(found[1]) for name in tensors if (found := re.match(pattern, name))]
    if not numbers:
        raise ValueError(f"The checkpoint has no tensor like {pattern}. Received: {', '.join(sorted(tensors)[:3])}")
    return max(numbers) + 1


def bert_sizes(tensors, kind):
    """A configuration as Hugging Face has it, for heads that are 64 wide."""
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
    """Arguments of `T5`. Tensors with a gate are of 1.1; without an output layer it is tied."""
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
