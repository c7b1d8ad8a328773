"""Writing models for Hugging Face's transformers."""

import contextlib
import json
import pathlib
import re
from typing import Any

import keras
import numpy as np

from keras_headattn._files import Path, atomic_path, sync, write_atomically
from keras_headattn._validation import check_number
from keras_headattn.interop._copying import Names
from keras_headattn.interop._export_causal import of_causal
from keras_headattn.interop._export_transformer import of_transformer
from keras_headattn.interop._modernbert import of_modernbert
from keras_headattn.interop._plain import activation_there, check_plain, plain_parts, refuse, tensors_of
from keras_headattn.interop._tables import BERT, HEADS, T5, T5_GATED
from keras_headattn.models import T5 as T5Model
from keras_headattn.models import Bert, CausalLM, ElectraPretraining, ModernBert, Transformer

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
CLASSES = {
    ("bert", None): "BertModel",
    ("bert", "MaskedLM"): "BertForMaskedLM",
    ("bert", "EncoderClassifier"): "BertForSequenceClassification",
    ("bert", "TokenClassifier"): "BertForTokenClassification",
    ("bert", "SpanAnswerer"): "BertForQuestionAnswering",
    ("roberta", None): "RobertaModel",
    ("roberta", "MaskedLM"): "RobertaForMaskedLM",
    ("roberta", "EncoderClassifier"): "RobertaForSequenceClassification",
    ("roberta", "TokenClassifier"): "RobertaForTokenClassification",
    ("roberta", "SpanAnswerer"): "RobertaForQuestionAnswering",
    ("electra", None): "ElectraModel",
    ("electra", "MaskedLM"): "ElectraForMaskedLM",
    ("electra", "ReplacedTokenDetector"): "ElectraForPreTraining",
    ("electra", "EncoderClassifier"): "ElectraForSequenceClassification",
    ("electra", "TokenClassifier"): "ElectraForTokenClassification",
    ("electra", "SpanAnswerer"): "ElectraForQuestionAnswering",
    ("modernbert", None): "ModernBertModel",
    ("modernbert", "MaskedLM"): "ModernBertForMaskedLM",
    ("modernbert", "EncoderClassifier"): "ModernBertForSequenceClassification",
    ("modernbert", "TokenClassifier"): "ModernBertForTokenClassification",
    ("modernbert", "SpanAnswerer"): "ModernBertForQuestionAnswering",
}


def to_hugging_face(
    model: keras.Model,
    folder: Path,
    model_type: str | None = None,
    source_tokenizer: Any = None,
    target_tokenizer: Any = None,
    tokenizer: Any = None,
    max_shard_size: float = 5e9,
) -> None:
    """Writes a model for Hugging Face's transformers: `config.json` and `model.safetensors`.

    Weights are the model's, bit for bit; a RoBERTa gets a segment embedding of zeros. Layers that equal multi-head
    attention, such as summed interacting heads, become it.

    A `CausalLM` leaves as a gpt2, llama, mistral, qwen2, qwen3, smollm3, gemma2, gemma3_text or gpt_neox, whichever has
    its positions, normalization and feed-forward layers. Biases of gpt2 that a model lacks, such as nanoGPT's, are 0.
    `generation_config.json` has the ids that it suppresses, and with its tokenizer those of beginning, end and padding.
    The tokenizer becomes `tokenizer.json`, or of a `ByteFallbackTokenizer` `tokenizer.model`, which `AutoTokenizer` of
    transformers 5 reads. There special tokens in a text have their ids, as with `special_tokens=True` here.

    With its tokenizers, a `Transformer` leaves as a Marian (post-norm) or a Blenderbot (pre-norm, one vocabulary), with
    the files of a `MarianTokenizer` and its own token ids. If its layer normalisation has another epsilon than PyTorch
    has, 1e-5, weights are scaled, which leaves the logits the same up to rounding.

    Args:
        model: `Bert`, `ModernBert` or their heads `MaskedLM`, `ReplacedTokenDetector`, `EncoderClassifier`,
            `TokenClassifier` and `SpanAnswerer`; `T5`; a `CausalLM`; a `Transformer`; or `ElectraPretraining`, written
            to folders `generator` and `discriminator`.
        folder: str or path, created if missing. Existing files are replaced, and other weights in safetensors removed.
            If that is interrupted, the folder has no model, or the old one.
        model_type: "bert", "roberta", "electra" or "modernbert" for encoders, see above for a `CausalLM`. Default
            `None`: inferred.
        source_tokenizer, target_tokenizer: `SentencePieceTokenizer` of a `Transformer`. Default `None`: no tokenizer is
            written, and the `Transformer` must be a Marian or M2M100 as `from_pretrained` makes it.
        tokenizer: `BytePairTokenizer`, `ByteTokenizer` or `ByteFallbackTokenizer` of a `CausalLM`. Default `None`: no
            tokenizer is written.
        max_shard_size: most bytes of weights in one file. Larger models get several files, with an index. Default 5e9.

    Raises:
        ValueError: if Hugging Face has no equivalent, such as for other attention. Nothing is written then.

    >>> from keras_headattn.interop import from_pretrained
    >>> model = Bert(50, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4)
    >>> to_hugging_face(model, "exported")
    >>> same = from_pretrained("exported")
    >>> all(np.array_equal(a, b) for a, b in zip(model.get_weights(), same.get_weights(), strict=True))
    True
    """
    if (source_tokenizer is None) != (target_tokenizer is None):
        raise ValueError(
            "Give both `source_tokenizer` and `target_tokenizer`, or none. "
            f"Received: source_tokenizer={source_tokenizer!r}, target_tokenizer={target_tokenizer!r}"
        )
    check_number("max_shard_size", max_shard_size, above=0)
    if tokenizer is not None and not isinstance(model, CausalLM):
        raise ValueError(
            "`tokenizer` is for a CausalLM; a Transformer takes `source_tokenizer` and `target_tokenizer`. "
            f"Received: tokenizer={tokenizer!r} for {model!r}"
        )
    tokenizers = () if source_tokenizer is None else (source_tokenizer, target_tokenizer)
    folder, parts = pathlib.Path(folder), {"": model}
    if isinstance(model, ElectraPretraining):
        parts, model_type = {"generator": model.generator, "discriminator": model.discriminator}, "electra"
    converted = {part: _converted(submodel, model_type, tokenizers, tokenizer) for part, submodel in parts.items()}
    _write({folder / part: contents for part, contents in converted.items()}, max_shard_size)


def _write(folders, max_shard_size):
    """Writes configurations, tensors and files by folder.

    Until all are written, `model.safetensors` is an empty file, which readers take before shards.
    """
    import safetensors.numpy

    shards = {folder: _shards(tensors, max_shard_size) for folder, (_, tensors, *_) in folders.items()}
    with contextlib.ExitStack() as stack:
        for folder, parts in shards.items():
            for name, tensors in parts.items():
                half = stack.enter_context(atomic_path(folder / name))
                half.write_bytes(safetensors.numpy.save(tensors, metadata={"format": "pt"}))
        for folder in folders:
            write_atomically(folder / WEIGHTS, b"")
        for folder, (config, _, *files) in folders.items():
            _remove_shards(folder)
            index = {} if WEIGHTS in shards[folder] else {INDEX: _index(shards[folder])}
            for name, content in (dict(*files) | index | {"config.json": config}).items():
                if content is None:
                    (folder / name).unlink(missing_ok=True)
                    continue
                if isinstance(content, dict):
                    content = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
                write_atomically(folder / name, content)
    for folder, parts in shards.items():
        if WEIGHTS not in parts:
            (folder / WEIGHTS).unlink()
            sync(folder)


def _shards(tensors, max_size):
    """Returns tensors by file, in their order; a tensor above the limit has a file of its own."""
    parts, size = [{}], 0
    for name, tensor in tensors.items():
        if parts[-1] and size + tensor.nbytes > max_size:
            parts, size = [*parts, {}], 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    if len(parts) == 1:
        return {WEIGHTS: tensors}
    return {f"model-{i:05}-of-{len(parts):05}.safetensors": part for i, part in enumerate(parts, 1)}


def _index(shards):
    sizes = [tensor.nbytes for part in shards.values() for tensor in part.values()]
    files = {name: file for file, part in shards.items() for name in part}
    return {"metadata": {"total_size": sum(sizes)}, "weight_map": dict(sorted(files.items()))}


def _remove_shards(folder):
    for path in folder.iterdir():
        if path.name == INDEX or re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", path.name):
            path.unlink()


def _converted(model, model_type, tokenizers, tokenizer=None):
    """Returns the configuration and tensors of a model, and of some their other files."""
    encoder = getattr(model, "encoder", model)
    if isinstance(model, Transformer):
        return of_transformer(model, tokenizers)
    if tokenizers:
        raise ValueError(
            "Only a Transformer takes source and target tokenizers; a CausalLM takes `tokenizer`. "
            f"Received: model={model!r}"
        )
    if isinstance(model, T5Model):
        return _of_t5(model)
    if isinstance(model, CausalLM):
        return of_causal(model, model_type, tokenizer)
    if isinstance(encoder, Bert | ModernBert):
        return of_encoder(model, encoder, model_type)
    raise ValueError(
        "`model` must be a Bert or ModernBert, one of their heads, a T5, a CausalLM or a Transformer. "
        f"Received: {model!r}"
    )


def of_encoder(model, encoder, model_type):
    head = None if model is encoder else type(model).__name__
    kind = model_type or _kind(encoder, head)
    if (kind, head) not in CLASSES:
        kinds = ", ".join(dict.fromkeys(name for name, _ in CLASSES))
        raise ValueError(f"`model_type` must be one of {kinds}, and have the head. Received: {kind!r} and {head}")
    if (kind == "modernbert") != isinstance(encoder, ModernBert):
        refuse("a ModernBert for modernbert, else a Bert", f"model_type={kind!r} of a {type(encoder).__name__}")
    if kind == "modernbert":
        config, tensors = of_modernbert(model, encoder, head)
        return {"architectures": [CLASSES[kind, head]], **config, **_labels(model, head)}, tensors
    if not encoder.max_length:
        refuse("learned positions", f"model_type={kind!r}, max_length=0")
    if encoder.skip_padding != (kind == "roberta") or kind == "roberta" and encoder.num_segments:
        refuse("positions that skip padding, and a single segment, only in RoBERTa", f"model_type={kind!r}")
    if kind != "electra" and encoder.embedding_dim != encoder.hidden_dim:
        refuse("embeddings of another width only in ELECTRA", f"model_type={kind!r}")
    attentions, weights = plain_parts(model)
    check_plain(attentions.values(), encoder.hidden_dim)
    if getattr(model, "head_dim", None) or getattr(model, "kind", kind) != kind:
        refuse(f"only the head of {kind}", f"head_dim={getattr(model, 'head_dim', None)}, kind={model.kind!r}")
    if getattr(model, "pooling", "first") != "first":
        refuse("only heads on the first token", f"pooling={model.pooling!r}")
    table = BERT.table | HEADS.get((kind, head), {})
    if (kind, head) == ("bert", "EncoderClassifier"):
        table = table | {"hidden": "pooler.dense"}
    tensors = tensors_of(weights, Names(table))
    segments = "embeddings.token_type_embeddings.weight"
    tensors.setdefault(segments, np.zeros((1, encoder.embedding_dim), "float32"))
    first = encoder.pad_id + 1 if kind == "roberta" else 0
    positions = "embeddings.position_embeddings.weight"
    tensors[positions] = np.pad(tensors[positions], ((first, 0), (0, 0)))
    if head is not None:
        prefixes = ("embeddings", "encoder.", "pooler.")
        tensors = {f"{kind}.{name}" if name.startswith(prefixes) else name: x for name, x in tensors.items()}
    config = dict(
        model_type=kind,
        architectures=[CLASSES[kind, head]],
        vocab_size=encoder.vocabulary_size,
        hidden_size=encoder.hidden_dim,
        intermediate_size=encoder.intermediate_dim,
        num_hidden_layers=encoder.num_layers,
        num_attention_heads=encoder.blocks[0].attention.num_heads,
        max_position_embeddings=encoder.max_length + first,
        type_vocab_size=max(1, encoder.num_segments),
        pad_token_id=encoder.pad_id,
        hidden_act=activation_there(encoder.activation),
        layer_norm_eps=encoder.norm_epsilon,
        hidden_dropout_prob=encoder.dropout,
        attention_probs_dropout_prob=encoder.blocks[0].attention.dropout,
        initializer_range=encoder.initializer_range,
        is_decoder=False,
    )
    if kind == "electra":
        config["embedding_size"] = encoder.embedding_dim
    return config | _labels(model, head), tensors


def _labels(model, head):
    """Returns the names of a classifier's classes, for the configuration."""
    if head not in ("EncoderClassifier", "TokenClassifier"):
        return {}
    names = {str(index): f"LABEL_{index}" for index in range(model.num_outputs)}
    return {"id2label": names, "label2id": {label: int(index) for index, label in names.items()}}


def _kind(encoder, head):
    if isinstance(encoder, ModernBert):
        return "modernbert"
    if encoder.skip_padding:
        return "roberta"
    is_electra = encoder.embedding_dim != encoder.hidden_dim or head == "ReplacedTokenDetector"
    return "electra" if is_electra else "bert"


def _of_t5(model):
    attentions, weights = plain_parts(model)
    check_plain(attentions.values(), use_bias=False, scale=1.0)
    first, *rest = attentions.values()
    if any((layer.num_heads, layer.key_dim) != (first.num_heads, first.key_dim) for layer in rest):
        heads = sorted({str(layer.num_heads) for layer in attentions.values()})
        refuse("the same heads in all layers", ", ".join(heads))
    tensors = tensors_of(weights, T5_GATED if model.gated else T5)
    activation = activation_there(model.activation)
    if model.gated and activation not in ("gelu_new", "silu") or not model.gated and activation not in ("relu", "silu"):
        refuse("feed-forward layers of relu, silu, gated gelu_tanh and gated silu", f"activation={model.activation!r}")
    config = dict(
        model_type="t5",
        architectures=["T5ForConditionalGeneration"],
        vocab_size=model.vocabulary_size,
        d_model=model.hidden_dim,
        d_ff=model.intermediate_dim,
        d_kv=first.key_dim,
        num_layers=model.num_layers,
        num_decoder_layers=model.num_decoder_layers,
        num_heads=first.num_heads,
        feed_forward_proj=f"gated-{activation.removesuffix('_new')}" if model.gated else activation,
        relative_attention_num_buckets=model.num_buckets,
        relative_attention_max_distance=model.max_distance,
        layer_norm_epsilon=model.norm_epsilon,
        dropout_rate=model.dropout,
        tie_word_embeddings=model.tie_output,
        is_encoder_decoder=True,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    if model.suppress:
        config["bad_words_ids"] = [[token] for token in model.suppress]
    return config, tensors
