"""Writing models for Hugging Face's transformers."""

import json
import pathlib

import keras
import numpy as np

from headattn_io.files import Path, write_atomically
from keras_headattn.interop._configs import ACTIVATIONS
from keras_headattn.interop._copying import Names, store, weights_by_name
from keras_headattn.interop._tables import BERT, HEADS, MARIAN, T5, T5_GATED, exchange_padding
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import T5 as T5Model
from keras_headattn.models import Bert, ElectraPretraining, Transformer
from keras_headattn.positions import SinusoidalPositions

CLASSES = {
    ("bert", None): "BertModel",
    ("bert", "MaskedLM"): "BertForMaskedLM",
    ("bert", "EncoderClassifier"): "BertForSequenceClassification",
    ("roberta", None): "RobertaModel",
    ("roberta", "MaskedLM"): "RobertaForMaskedLM",
    ("roberta", "EncoderClassifier"): "RobertaForSequenceClassification",
    ("electra", None): "ElectraModel",
    ("electra", "MaskedLM"): "ElectraForMaskedLM",
    ("electra", "ReplacedTokenDetector"): "ElectraForPreTraining",
    ("electra", "EncoderClassifier"): "ElectraForSequenceClassification",
}
# Attention options that Hugging Face models cannot express.
PLAIN = (
    "sliding_window",
    "use_gate",
    "relative_positions",
    "qk_norm",
    "attn_logits_soft_cap",
    "use_sinks",
    "attention_axes",
)


def to_hugging_face(model: keras.Model, folder: Path, model_type: str | None = None) -> None:
    """Writes a model's `config.json` and `model.safetensors` for Hugging Face's transformers, without tokenizer.

    Weights are the model's, bit for bit; a RoBERTa gets a segment embedding of zeros.

    Args:
        model: `Bert` or its heads `MaskedLM`, `ReplacedTokenDetector` and `EncoderClassifier`; `T5`; a `Transformer`
            like Marian or M2M100; or `ElectraPretraining`, written to folders `generator` and `discriminator`.
        folder: str or path, created if missing. Existing files are replaced.
        model_type: "bert", "roberta" or "electra", for encoders. Default `None`: inferred.

    Raises:
        ValueError: if Hugging Face has no equivalent, such as for other attention. Nothing is written then.

    >>> from keras_headattn.interop import from_pretrained
    >>> model = Bert(50, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4)
    >>> to_hugging_face(model, "exported")
    >>> same = from_pretrained("exported")
    >>> all(np.array_equal(a, b) for a, b in zip(model.get_weights(), same.get_weights(), strict=True))
    True
    """
    import safetensors.numpy

    folder, parts = pathlib.Path(folder), {"": model}
    if isinstance(model, ElectraPretraining):
        parts, model_type = {"generator": model.generator, "discriminator": model.discriminator}, "electra"
    for part, (config, tensors) in {part: _converted(each, model_type) for part, each in parts.items()}.items():
        tensors = safetensors.numpy.save(tensors, metadata={"format": "pt"})
        write_atomically(folder / part / "model.safetensors", tensors)
        write_atomically(folder / part / "config.json", (json.dumps(config, indent=2) + "\n").encode("utf-8"))


def _converted(model, model_type):
    """Returns the configuration and tensors of a model."""
    encoder = getattr(model, "encoder", model)
    if isinstance(model, T5Model):
        return _of_t5(model)
    if isinstance(model, Transformer):
        return _of_translator(model)
    if isinstance(encoder, Bert):
        return of_encoder(model, encoder, model_type)
    raise ValueError(f"`model` must be a Bert, one of its heads, a T5 or a Transformer. Received: {model!r}")


def refuse(what, received):
    raise ValueError(f"The format has no equivalent of this model: it has {what}. Received: {received}")


def check_plain(attentions, width=None, use_bias=True, scale=None):
    """Refuses layers other than plain multi-head attention."""
    for layer in attentions:
        if type(layer) is not MultiHeadAttention:
            refuse("only multi-head attention", f"{type(layer).__name__} in {layer.path}")
        config = layer.get_config()
        settings = {name: config[name] for name in PLAIN if config[name]}
        if layer.relative_positions is not None and scale == 1.0:  # T5's table is the model's
            settings.pop("relative_positions")
        if config["use_bias"] != use_bias or layer.value_dim != layer.key_dim or config["output_shape"]:
            settings |= {name: config[name] for name in ("use_bias", "key_dim", "value_dim", "output_shape")}
        if layer.scale != (layer.key_dim**-0.5 if scale is None else scale):
            settings["scale"] = layer.scale
        if width is not None and layer.num_heads * layer.key_dim != width:
            settings |= {"num_heads": layer.num_heads, "key_dim": layer.key_dim}
        if settings:
            refuse(
                "no attention with such settings", ", ".join(f"{name}={value!r}" for name, value in settings.items())
            )


def activation_there(activation):
    """Returns Hugging Face's name of an activation."""
    name = activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if name not in names:
        refuse(f"the activations {', '.join(names)}", f"activation={name}")
    return names[name]


def _tensors(model, names):
    """Returns the weights by the format's names and in its layout."""
    result = {}
    for name, weight in weights_by_name(model).items():
        theirs = names.find(name)
        if theirs is None:
            refuse("no weight of this name", name)
        result[theirs] = store(name, weight, names.kernels)
    return result


def of_encoder(model, encoder, model_type):
    head = None if model is encoder else type(model).__name__
    kind = model_type or _kind(encoder, head)
    if (kind, head) not in CLASSES:
        kinds = ", ".join(dict.fromkeys(each for each, _ in CLASSES))
        raise ValueError(f"`model_type` must be one of {kinds}, and have the head. Received: {kind!r} and {head}")
    if encoder.skip_padding != (kind == "roberta") or kind == "roberta" and encoder.num_segments:
        refuse("positions that skip padding, and a single segment, only in RoBERTa", f"model_type={kind!r}")
    if kind != "electra" and encoder.embedding_dim != encoder.hidden_dim:
        refuse("embeddings of another width only in ELECTRA", f"model_type={kind!r}")
    if not encoder.built:
        encoder.build()
    check_plain([block.attention for block in encoder.blocks], encoder.hidden_dim)
    if getattr(model, "head_dim", None) or getattr(model, "kind", kind) != kind:
        refuse(f"only the head of {kind}", f"head_dim={model.head_dim}, kind={model.kind!r}")
    if getattr(model, "pooling", "first") != "first":
        refuse("only heads on the first token", f"pooling={model.pooling!r}")
    table = BERT.table | HEADS.get((kind, head), {})
    if (kind, head) == ("bert", "EncoderClassifier"):
        table = table | {"hidden": "pooler.dense"}
    tensors = _tensors(model, Names(table))
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
    if head == "EncoderClassifier":
        config["id2label"] = {str(number): f"LABEL_{number}" for number in range(model.num_outputs)}
        config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    return config, tensors


def _kind(encoder, head):
    if encoder.skip_padding:
        return "roberta"
    is_electra = encoder.embedding_dim != encoder.hidden_dim or head == "ReplacedTokenDetector"
    return "electra" if is_electra else "bert"


def _attentions(model):
    if not model.built:
        model.build()
    return [layer for block in (*model.encoder_blocks, *model.decoder_blocks) for layer in block.attentions.values()]


def _of_t5(model):
    attentions = _attentions(model)
    check_plain(attentions, use_bias=False, scale=1.0)
    first = attentions[0]
    if any((layer.num_heads, layer.key_dim) != (first.num_heads, first.key_dim) for layer in attentions):
        refuse("the same heads in all layers", ", ".join(sorted({str(layer.num_heads) for layer in attentions})))
    tensors = _tensors(model, T5_GATED if model.gated else T5)
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


def _of_translator(model):
    is_marian, heads = _check_translator(model)
    size = model.target_vocabulary_size or model.source_vocabulary_size
    pad_id = size - 1 if is_marian else model.templates["positions"].layer.first - 1
    tensors = _tensors(model, MARIAN)
    if is_marian:
        tensors.setdefault("final_logits_bias", np.zeros(size, "float32"))
    for name in ("model.shared.weight", "model.encoder.embed_tokens.weight", "final_logits_bias"):
        if name in tensors:
            tensors[name] = exchange_padding(tensors[name], pad_id)
    if is_marian:
        tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    if separate := model.target_vocabulary_size is not None:
        tensors["model.decoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")
    feed_forward = model.templates["feed_forward"].layer
    sizes = dict(layers=model.num_layers, attention_heads=heads, ffn_dim=feed_forward.intermediate_dim)
    config = dict(
        model_type="marian" if is_marian else "m2m_100",
        architectures=["MarianMTModel" if is_marian else "M2M100ForConditionalGeneration"],
        vocab_size=model.source_vocabulary_size,
        d_model=model.hidden_dim,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()},
        activation_function=activation_there(feed_forward.activation),
        dropout=model.dropout,
        attention_dropout=_attentions(model)[0].dropout,
        activation_dropout=feed_forward.dropout,
        scale_embedding=True,
        max_position_embeddings=512 if is_marian else 1024,
        pad_token_id=pad_id,
        eos_token_id=0 if is_marian else 2,
        bos_token_id=0,
        forced_eos_token_id=(0 if is_marian else 2) if model.force_end else None,
        decoder_start_token_id=pad_id if is_marian else 2,
        is_encoder_decoder=True,
        tie_word_embeddings=True,
    )
    config["decoder_layers"] = model.num_decoder_layers
    if model.suppress:
        places = {0: pad_id, pad_id: 0}
        config["bad_words_ids"] = [[places.get(token, token)] for token in model.suppress]
    if is_marian:
        config |= dict(share_encoder_decoder_embeddings=not separate, decoder_vocab_size=size)
    return config, tensors


def _check_translator(model):
    """Returns True for a Marian, False for an M2M100, and the number of heads; refuses other models."""
    attentions = _attentions(model)
    check_plain(attentions, model.hidden_dim)
    heads = {layer.num_heads for layer in attentions}
    positions = model.templates["positions"].layer
    if not isinstance(positions, SinusoidalPositions):
        refuse("sinusoidal positions", f"positions={positions!r}")
    is_marian = not model.normalize_first and not positions.endpoint and positions.first == 0
    if not is_marian and not (model.normalize_first and positions.endpoint and positions.first > 0):
        refuse(
            "the blocks and positions of Marian or of M2M100, see `from_pretrained`",
            f"normalize_first={model.normalize_first}, endpoint={positions.endpoint}, first={positions.first}",
        )
    norm, feed_forward = model.templates["norm"].layer, model.templates["feed_forward"].layer
    if type(norm).__name__ != "LayerNormalization" or norm.epsilon != 1e-5:
        refuse("layer normalisation with an epsilon of 1e-5", f"{norm.name}, {getattr(norm, 'epsilon', None)}")
    if len(heads) > 1 or feed_forward.gated or not feed_forward.use_bias or not model.tie_output:
        refuse("one number of heads, a plain feed-forward layer and a tied output", f"heads {sorted(heads)}")
    if not is_marian and (model.output_bias or model.target_vocabulary_size):
        refuse("one vocabulary and no output bias in M2M100", f"output_bias={model.output_bias}")
    if model.target_vocabulary_size not in (None, model.source_vocabulary_size):
        sizes = f"{model.source_vocabulary_size}, {model.target_vocabulary_size}"
        refuse("vocabularies of one size, as padding is the last of both", sizes)
    return is_marian, min(heads)
