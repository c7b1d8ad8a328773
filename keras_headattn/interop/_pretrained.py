"""Models from checkpoints, with any attention."""

import functools
import inspect
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import layers, ops

from keras_headattn import layers as ours
from keras_headattn._files import Path
from keras_headattn._types import AttentionLike, Initializer
from keras_headattn.interop._causal import LAYOUTS, make_causal
from keras_headattn.interop._checkpoints import check_checkpoint
from keras_headattn.interop._configs import ROBERTAS, Config, bert_arguments, t5_arguments, translator_arguments
from keras_headattn.interop._containers import find_file, read_tensors
from keras_headattn.interop._copying import Names, check_fit, copy_weights
from keras_headattn.interop._generation import is_end_forced, suppressed_ids
from keras_headattn.interop._modernbert import (
    POOLINGS,
    check_modernbert_sizes,
    modernbert_arguments,
    split_projections,
)
from keras_headattn.interop._sizes import (
    bert_sizes,
    check_bert_sizes,
    check_t5_sizes,
    check_translator_sizes,
    t5_sizes,
)
from keras_headattn.interop._start import check_encoder_start
from keras_headattn.interop._tables import (
    BERT,
    HEADS,
    MARIAN,
    MODERNBERT,
    T5,
    T5_ENCODER,
    T5_ENCODER_GATED,
    T5_GATED,
    exchange_padding,
    fold_segment,
    of_generator,
    of_t5x,
    of_tensorflow,
)
from keras_headattn.layers import ATTENTIONS, FeedForward
from keras_headattn.layers._template import Template
from keras_headattn.models import T5 as T5Model
from keras_headattn.models import (
    Bert,
    EncoderClassifier,
    MaskedLM,
    ModernBert,
    ReplacedTokenDetector,
    SpanAnswerer,
    TokenClassifier,
    Transformer,
    TransformerEncoder,
)
from keras_headattn.positions import BucketPositions, LearnedPositions, SinusoidalPositions

ENCODERS = ("bert", *ROBERTAS, "electra", "modernbert")
T5S = ("t5", "mt5")
TRANSLATORS = ("marian", "m2m_100", "blenderbot")
HEAD_CLASSES = {
    "masked_lm": MaskedLM,
    "replaced_token": ReplacedTokenDetector,
    "classifier": EncoderClassifier,
    "span_answerer": SpanAnswerer,
    "token_classifier": TokenClassifier,
}


def from_pretrained(
    path: Path,
    attention: AttentionLike = "multi_head",
    map_initializer: Initializer | None = None,
    head: str | None = None,
    ignore: Sequence[str] = (),
    strict: bool = True,
    return_report: bool = False,
    start: str | None = None,
    **overrides: Any,
) -> Any:
    """Makes a model from a checkpoint, with its weights and any attention.

    The format is recognised by the files:

    | format | files | model |
    |---|---|---|
    | Hugging Face | `config.json` of model type bert, roberta, xlm-roberta, camembert, electra, modernbert, t5, mt5, marian, m2m_100 or blenderbot; tensors in a format of `read_tensors` | `Bert`, `ModernBert`, `T5`, `Transformer` |
    | Hugging Face | as above, of model type gpt2, llama, mistral, qwen2, qwen3, smollm3, gemma2, gemma3_text or gpt_neox | `CausalLM` |
    | Hugging Face | as above, of the encoder of a T5 or mT5 alone (`T5EncoderModel`) | `TransformerEncoder` |
    | TensorFlow 1 | BERT: `bert_config.json` and `.index`; ELECTRA and Mesh TensorFlow's T5: `.index` alone | `Bert`, `T5` |
    | t5x | `checkpoint` in one file | `T5` |
    | KerasHub | a preset: `config.json` and `model.weights.h5` | `Bert` |

    Sizes come from the configuration, or else from the tensors (an ELECTRA then has 64 units per head). Weights of the
    attention that the checkpoint lacks, such as the convolution of `EvolvingAttention`, are initialised.

    Token ids are the checkpoint's, except that a `Transformer` swaps padding and id 0, as it pads with 0.
    The ids that the checkpoint suppresses or forces become `suppress` and `force_end` of the model;
    `generation_settings` returns its other search settings.

    In a `CausalLM`, `"multi_head"` is the checkpoint's own attention, with its groups of keys and values. Another
    attention gets the query, key, value and output weights whose shapes agree; keys and values are repeated for heads
    that share none, and averaged where more heads share them. `attention_arguments` are added to the checkpoint's.
    Settings of rotary positions are read in both forms of `config.json`.

    If the first two blocks, of an encoder-decoder's encoder, compute something else than with the checkpoint's own
    attention, on random input, a `UserWarning` says by how much.

    Args:
        path: str or path of a folder, or of a TensorFlow 1 or t5x checkpoint. Download from Hugging Face's hub first.
        attention: as in the model, for encoder and decoder. Default `"multi_head"`.
        map_initializer: as in `EvolvingAttention`, if `attention` is its name or class. Default `None`: its own.
        head: `"masked_lm"`, `"replaced_token"`, `"classifier"`, `"token_classifier"` or `"span_answerer"` to add the
            checkpoint's head to an encoder. Default `None`: no head.
        ignore: list of str, unknown keys of the configuration to ignore. Default: none.
        strict: bool, True to raise an error if tensors other than heads are left over. Default True.
        return_report: bool, True to return the `Report`, too. Default False.
        start: `"same"` for attention of a `CausalLM` that starts equal to the checkpoint's: sets
            `mixing_initializer="identity"` of talking heads, and raises an error if the first two blocks differ by more
            than 1e-5 of the largest output. Default `None`: as the attention starts by itself.
        **overrides: arguments of the model in place of the checkpoint's, such as `dropout=0.0`.

    Returns:
        The model, or with `return_report` `(model, report)`.

    Raises:
        FileNotFoundError, ValueError, ImportError: if a file is missing or damaged, a tensor is missing, left over or
            of another shape, or the configuration is not supported.

    >>> from keras_headattn.interop import to_hugging_face
    >>> to_hugging_face(Bert(50, 16, 32, num_layers=2, num_heads=4), "tiny-bert")
    >>> model, report = from_pretrained("tiny-bert", attention="evolving", map_initializer="identity", return_report=True)
    >>> print(report)
    39 tensors copied.
    Not in the checkpoint: initialised: block_1/attention/map_kernel, block_1/attention/map_bias.
    """  # noqa: E501
    path = pathlib.Path(path)
    if map_initializer is not None:
        attention = _with_map_initializer(attention, map_initializer)
    if (path / "config.json").exists():
        config = Config.load(path / "config.json")
        if "registered_name" in config.values:
            from keras_headattn.interop._keras_hub import from_preset

            if head is not None or ignore or not strict:
                raise ValueError(
                    "KerasHub's presets take no `head`, `ignore` and `strict`. "
                    f"Received: head={head!r}, ignore={ignore!r}, strict={strict} for {path}"
                )
            model, report = from_preset(path, attention, **overrides)
            return (model, report) if return_report else model
        kind = config["model_type"]
        if kind not in (*ENCODERS, *TRANSLATORS, *T5S, *LAYOUTS):
            known = ", ".join((*ENCODERS, *T5S, *TRANSLATORS, *LAYOUTS))
            raise ValueError(f"`model_type` must be one of {known}. Received: {kind!r} in {config.path}")
    else:
        config, kind = None, None
    tensors = canonical_tensors(path)
    kind = kind or _kind_of(tensors, path)
    make = _make_t5 if kind in T5S else _make_translator if kind in TRANSLATORS else _make_encoder
    if kind in LAYOUTS:
        make = functools.partial(make_causal, start=start)
    elif start is not None:
        raise ValueError(f"`start` is for language models alone. Received: start={start!r} for {kind}")
    if head is not None and kind not in ENCODERS:
        raise ValueError(f"`head` is for BERT, RoBERTa, ELECTRA and ModernBERT. Received: head={head!r} for {kind}")
    of_checkpoint = functools.partial(make, kind, config, path, tensors, "multi_head", None, ignore)
    model, names, tensors, *checks = make(kind, config, path, tensors, attention, head, ignore, overrides)
    report = copy_weights(model, tensors, names, strict)
    for check in checks:
        check()
    if kind not in LAYOUTS:

        def make_few(sizes):
            others = {name: x for name, x in overrides.items() if not name.endswith("attention")}
            few, names, tensors = of_checkpoint(others | sizes)
            copy_weights(few, tensors, names, strict=False)
            return few

        check_encoder_start(model.encoder if head else model, report.initialised, make_few)
    return (model, report) if return_report else model


def _with_map_initializer(attention, map_initializer):
    """Returns a partial of the attention's class with this initializer."""
    cls = ATTENTIONS[attention] if isinstance(attention, str) and attention in ATTENTIONS else attention
    made = cls.func if isinstance(cls, functools.partial) else cls
    if not (isinstance(made, type) and issubclass(made, ours.EvolvingAttention)):
        raise ValueError(
            "`map_initializer` is for EvolvingAttention by name or class; set it on a layer itself. "
            f"Received: attention={attention!r}"
        )
    return functools.partial(cls, map_initializer=map_initializer)


def canonical_tensors(path):
    """Returns tensors by PyTorch's names and in its layout."""
    check_checkpoint(path)
    tensors = read_tensors(path)
    file = find_file(path) if path.is_dir() else path
    if file.suffix == ".h5":
        # Drop the scope: the names of the layer and of the model's class.
        tensors = of_tensorflow({re.sub(r"^[^/]+/tf_\w+?/", "", name): array for name, array in tensors.items()})
    elif any("/" in name for name in tensors):
        is_t5x = any(re.search("(^|/)target/", name) for name in tensors)
        tensors = of_t5x(tensors) if is_t5x else of_tensorflow(tensors)
    old = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}
    for end, new in old.items():
        tensors = {name.removesuffix(end) + new if name.endswith(end) else name: x for name, x in tensors.items()}
    return tensors


def _kind_of(tensors, path):
    """Returns the model type of a checkpoint without config.json."""
    for prefix, kind in (("encoder.block.0.", "t5"), ("electra.", "electra"), ("bert.", "bert")):
        if any(name.startswith(prefix) for name in tensors):
            return kind
    raise ValueError(
        "A folder without config.json must hold a BERT, ELECTRA or T5, see `from_pretrained`. "
        f"Received: {path} with {', '.join(sorted(tensors)[:3])}"
    )


def encoder_arguments(kind, config, path, tensors, ignore):
    """Returns the arguments of the encoder, from the configuration or the tensors, and the tensors without prefix."""
    prefix = "roberta" if kind in ROBERTAS else {"modernbert": "model"}.get(kind, kind)
    is_model = re.compile(rf"^({prefix}|discriminator)\.")
    tensors = {is_model.sub("", name, count=1): x for name, x in tensors.items()}
    if kind == "modernbert":
        arguments, tensors = modernbert_arguments(config), split_projections(tensors)
        config.check(ignore)
        check_modernbert_sizes(arguments, tensors)
        return arguments, tensors
    if config is None:
        folder = path if path.is_dir() else path.parent
        file = folder / "bert_config.json"
        config = Config.load(file) if file.exists() else Config(bert_sizes(tensors, kind), path)
        config.values |= {"model_type": kind}
        arguments = bert_arguments(config)
        if kind == "bert" and arguments["activation"] == "gelu":  # Google's BERT uses tanh
            arguments["activation"] = "gelu_tanh"
    else:
        arguments = bert_arguments(config)
    config.check(ignore)
    check_bert_sizes(config, arguments, tensors)
    return arguments, tensors


def _make_encoder(kind, config, path, tensors, attention, head, ignore, overrides):
    if head == "masked_lm" and any(name.startswith("generator.") for name in tensors):
        tensors = of_generator(tensors)
    arguments, tensors = encoder_arguments(kind, config, path, tensors, ignore)
    kind = "roberta" if kind in ROBERTAS else kind
    head_class, head_arguments = _head_arguments(head, kind, config, tensors)
    if kind == "modernbert":
        cls, names = ModernBert, MODERNBERT
    else:
        cls, names = Bert, BERT
        arguments["pooler"] = "pooler.dense.weight" in tensors and not (kind == "roberta" and head_class)
    model = cls(**{**arguments, "attention": attention, **overrides})
    if head_class is MaskedLM:
        outputs = ("cls.predictions.decoder.weight", "lm_head.decoder.weight", "generator_lm_head.weight")
        _check_tied(tensors, (*outputs, "decoder.weight"), names.table["token_embedding"] + ".weight", path)
    if head_class is not None:
        model = head_class(model, **head_arguments)
        names = Names(names.table | HEADS[kind, head_class.__name__], unused=names.unused)
        names = _with_tied_bias(names, tensors)
    if kind == "roberta":
        tensors = fold_segment(tensors, arguments["pad_id"] + 1)
    return model, names, tensors


def _head_arguments(head, kind, config, tensors):
    if head is None:
        return None, {}
    cls = HEAD_CLASSES.get(head)
    if cls is None or (kind, cls.__name__) not in HEADS:
        there = [name for name, head_class in HEAD_CLASSES.items() if (kind, head_class.__name__) in HEADS]
        raise ValueError(f"`head` of {kind} must be None or one of {', '.join(there)}. Received: head={head!r}")
    if cls is MaskedLM and kind != "bert":  # whatever the encoder's is
        return cls, {"activation": "gelu"}
    if cls not in (EncoderClassifier, TokenClassifier):
        return cls, {}
    output = HEADS[kind, cls.__name__]["output_projection"] + ".weight"
    if output not in tensors:
        raise ValueError(f"The checkpoint has no head of a classifier. Received: head={head!r}, no tensor {output}")
    arguments = {"num_outputs": len(tensors[output])} | ({"kind": kind} if cls is EncoderClassifier else {})
    if cls is EncoderClassifier and kind == "modernbert":
        pooling = config.get("classifier_pooling", "cls")
        if pooling not in list(POOLINGS):
            raise ValueError(
                f"`classifier_pooling` must be one of {', '.join(POOLINGS)}. Received: {pooling!r} in {config.path}"
            )
        arguments["pooling"] = POOLINGS[pooling]
    return cls, arguments


def _check_tied(tensors, outputs, embedding, path):
    """Refuses output layers and second embeddings that differ from the embedding, as models here share it."""
    for name in outputs:
        if name in tensors and not np.array_equal(tensors[name], tensors.get(embedding)):
            what = "other embeddings" if "embed" in name else "output layer"
            raise ValueError(f"The {what} must be the embedding. Received: another {name} in {path}")


def _with_tied_bias(names, tensors):
    """Renames the output bias if the file has it under its other name."""
    bias = names.table.get("output_bias")
    if bias not in ("lm_head.bias", "cls.predictions.bias") or bias in tensors:
        return names
    return Names(names.table | {"output_bias": bias.replace("bias", "decoder.bias")}, unused=names.unused)


def _make_t5(kind, config, path, tensors, attention, head, ignore, overrides):
    tensors = _with_shared(tensors, path)
    has_decoder = any(name.startswith("decoder.block.") for name in tensors)
    if config is None:
        arguments = t5_sizes(tensors, path)
    else:
        arguments = t5_arguments(config)
        config.check(ignore)
        classes = str(config.get("architectures"))
        has_decoder = has_decoder or "ForConditionalGeneration" in classes or "T5Model" in classes
        if has_decoder:
            arguments |= dict(suppress=suppressed_ids(config), force_end=is_end_forced(config))
    if arguments["tie_output"] and "lm_head.weight" in tensors:
        tensors.setdefault("shared.weight", tensors["lm_head.weight"])
    check_t5_sizes(arguments if has_decoder else {**arguments, "num_decoder_layers": 0}, tensors)
    if not has_decoder:
        names = T5_ENCODER_GATED if arguments["gated"] else T5_ENCODER
        return _make_t5_encoder(arguments, attention, overrides), names, tensors
    model, shared = T5Model(**{**arguments, "attention": attention, **overrides}), tensors["shared.weight"]
    if model.tie_output and np.array_equal(tensors.get("lm_head.weight"), shared):
        del tensors["lm_head.weight"]  # a copy
    elif not model.tie_output and config is not None and (kind == "mt5" or config.get("tie_word_embeddings", True)):
        tensors.setdefault("lm_head.weight", shared)
    return model, T5_GATED if model.gated else T5, tensors


def _with_shared(tensors, path):
    """Returns a copy with the embedding of encoder and decoder under one name."""
    names = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    names = [name for name in names if name in tensors]
    if differing := [name for name in names if not np.array_equal(tensors[name], tensors[names[0]])]:
        raise ValueError(
            f"Encoder and decoder must have one embedding. Received: {differing[0]} other than {names[0]} in {path}"
        )
    return tensors | ({"shared.weight": tensors[names[0]]} if names else {})


def _make_t5_encoder(arguments, attention, overrides):
    heads, dropout = (overrides.get(name, arguments[name]) for name in ("num_heads", "dropout"))
    template = Template.of_attention("attention", attention, heads, heads * arguments["key_dim"])
    options = {name: arguments[name] for name in ("vocabulary_size", "hidden_dim", "intermediate_dim", "num_layers")}
    options |= dict(
        attention=template.make({"scale": 1.0}, use_bias=False, dropout=dropout),
        num_heads=heads,
        positions=None,
        relative_positions=BucketPositions(arguments["num_buckets"], arguments["max_distance"]),
        norm=layers.RMSNormalization(epsilon=arguments.get("norm_epsilon", 1e-6)),
        feed_forward=FeedForward(
            arguments["intermediate_dim"], arguments["activation"], dropout, arguments["gated"], use_bias=False
        ),
        normalization="pre",
        dropout=dropout,
    )
    return TransformerEncoder(**{**options, **overrides})


def _make_translator(kind, config, path, tensors, attention, head, ignore, overrides):
    arguments = translator_arguments(config)
    pad_id = config.integer("pad_token_id", most=(arguments["target_vocabulary_size"] or config["vocab_size"]) - 1)
    attention_dropout = config.number("attention_dropout", 0.0, below=1)
    config.check(ignore)
    positions = _translator_positions(kind, pad_id, arguments["hidden_dim"], tensors)
    if isinstance(attention, str) or inspect.isclass(attention) or isinstance(attention, functools.partial):
        sizes = overrides.get("num_heads", arguments["num_heads"]), arguments["hidden_dim"]
        dropout = overrides.get("dropout", attention_dropout)
        attention = Template.of_attention("attention", attention, *sizes, dropout=dropout)
    options = dict(attention=attention, norm=layers.LayerNormalization(epsilon=1e-5), positions=positions)
    options |= dict(suppress=suppressed_ids(config), force_end=is_end_forced(config))
    tensors = dict(tensors)
    shared = [name for name in ("model.encoder.embed_tokens.weight", "lm_head.weight") if name in tensors]
    if arguments["target_vocabulary_size"] is None:
        if "model.shared.weight" not in tensors and shared:
            tensors["model.shared.weight"] = tensors[shared[0]]
    elif "model.decoder.embed_tokens.weight" in tensors:
        tensors["model.shared.weight"] = tensors.pop("model.decoder.embed_tokens.weight")
    if kind != "m2m_100" and config.get("tie_word_embeddings") is False:
        arguments["tie_output"] = "lm_head.weight" not in tensors
    else:
        _check_tied(tensors, ("lm_head.weight",), "model.shared.weight", path)
    if arguments["target_vocabulary_size"] is None:
        names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        _check_tied(tensors, names, "model.shared.weight", path)
    check_translator_sizes(arguments, tensors)
    model = Transformer(**{**arguments, **options, **overrides})
    if model.output_bias and "final_logits_bias" not in tensors:
        tensors["final_logits_bias"] = np.zeros((1, model.target_vocabulary_size or model.source_vocabulary_size))
    if "final_logits_bias" in tensors:
        tensors["final_logits_bias"] = np.reshape(tensors["final_logits_bias"], -1)
    for name in ("model.shared.weight", "model.encoder.embed_tokens.weight", "final_logits_bias"):
        if name in tensors:
            tensors[name] = exchange_padding(tensors[name], pad_id)
    return model, MARIAN, tensors


def _translator_positions(kind, pad_id, width, tensors):
    """Returns the positions of a translator: its table if it has one other than the sinusoids of its type."""
    table = tensors.get("model.encoder.embed_positions.weight")
    if kind == "m2m_100":
        return SinusoidalPositions(first=pad_id + 1)
    if kind == "marian":
        positions = SinusoidalPositions(endpoint=False)
        if table is None or np.ndim(table) != 2 or table.shape[1] != width:
            return positions
        expected = ops.convert_to_numpy(positions(np.zeros((1, *table.shape), "float32")))[0]
        if np.allclose(table, expected, atol=0.01):  # also if it is kept in 16 bits
            return positions
    if table is None or np.ndim(table) != 2:
        check_fit({"missing": ["model.encoder.embed_positions.weight"]})
    return LearnedPositions(len(table))


def tokenizer_of(path: Path, **arguments: Any) -> Any:
    """Makes the tokenizer of a checkpoint, with the token ids of `from_pretrained`'s model.

    It is read from tokenizer.json or else older files, pieces with byte fallback from tokenizer.model.
    Settings that would change ids are either applied or refused. Added tokens stay whole in texts.

    Args:
        path: str or path of a folder of Hugging Face or a KerasHub preset.
        **arguments: arguments of the tokenizer.

    Returns:
        `WordPieceTokenizer` for BERT and ELECTRA; `BytePairTokenizer` for RoBERTa and, with tokenizer.json, for GPT-2,
        Pythia, Llama 3, Qwen 2 and 3, and SmolLM; `ByteFallbackTokenizer` for Llama 2, Mistral 7B and Gemma;
        `ModernBertTokenizer`; `SentencePieceTokenizer` for T5 and mT5; `SentencePiecePairTokenizer` for XLM-R and
        CamemBERT; and a `LanguagePair` for Marian and what `to_hugging_face` writes of a `Transformer`.

    Raises:
        FileNotFoundError: if there is no tokenizer.
        ValueError: if a file is damaged, the model has another vocabulary size, or a setting is not supported.
    """
    from keras_headattn.interop._tokenizers import read_tokenizer

    check_checkpoint(path)
    return read_tokenizer(pathlib.Path(path), arguments)
