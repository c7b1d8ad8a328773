"""SavedModels that translate text or ids."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn.decoding import Searcher, Shortlist
from keras_headattn.decoding._shortlist import check_shortlist
from keras_headattn.serving._attention_signature import piece_names, translation_attention
from keras_headattn.serving._buckets import after, cut_ids, is_longer, pad_to_bucket
from keras_headattn.serving._inference import in_one_thread
from keras_headattn.serving._stored_weights import StoredWeights
from keras_headattn.serving._translator import source_buckets
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text import SentencePieceTokenizer

MIN_LENGTH = tf.TensorSpec((None,), tf.int32, name="min_length")


def export_translator(
    searcher: Searcher,
    source_tokenizer: SentencePieceTokenizer,
    target_tokenizer: SentencePieceTokenizer,
    folder: Path,
    xla_signature: bool = False,
    max_source_length: int | None = None,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    attention: bool = False,
    weights: str = "float32",
    cpu_only: bool = False,
    shortlist: Shortlist | None = None,
) -> pathlib.Path:
    """Writes a SavedModel that translates text, vocabularies included, and returns the `Path` of the new version.

    It needs TensorFlow and tensorflow-text only. Signatures:

    - `serving_default`: strings `text` `(B,)` to the best `translations` `(B,)`, strings, and their `scores` `(B,)`,
      float32;
    - `n_best`: the same for the whole beam, `(B, beam_size)`, best first, or all samples; missing hypotheses are `""`
      with score -1e9. With `return_token_scores` also strings `pieces` and float32 `token_scores`
      `(B, beam_size, max_length)`, `""` and 0 after the end symbol;
    - `constrained`: as `n_best`, with optional inputs for each row: strings `prefix` `(B,)`, the start of its
      translations, by default `""`, and int32 `min_length` `(B,)`, fewest tokens, by default that of `searcher`;
    - `xla`, optional: as `serving_default`, compiled with XLA for each batch size and source length;
    - `attention`, optional: also strings `source_pieces` `(B, n)` and `target_pieces` `(B, m)`, `""` for padding, and
      float32 `weights` `(B, layers, heads, m, n)` of the cross-attention when each target piece was written. Paired
      heads give `heads * heads` maps.

    With `max_source_length`, every signature also returns boolean `is_cut` `(B,)`, True if the source was cut. Sources
    are padded to the lengths of `Translator`.

    Args:
        searcher: `Searcher` of a trained model.
        source_tokenizer, target_tokenizer: `SentencePieceTokenizer`.
        folder: str or path. The next version is written to `folder/1`, `folder/2`, ... and appears only when complete.
        xla_signature: bool, True to add the signature `xla`. Default False.
        max_source_length: int, most ids of a source, including its end symbol; longer ones are cut. Default `None`:
            none are, so long ones may exhaust memory.
        run, warmup_batch_sizes: as in `export_classifier`.
        attention: bool, True to add the signature `attention`. Default False.
        weights: storage of large matrices: `"float32"`, `"bfloat16"` (half the bytes) or `"int8"` (a quarter, with a
            factor for each output of a kernel and each token of an embedding). They are multiplied as float32, so calls
            get slightly slower, not faster. Default `"float32"`.
        cpu_only: bool, True if servers have no GPU: the search runs in one thread, which takes two thirds of the time,
            and not on GPUs. Default False.
        shortlist: as in `Translator`.

    Raises:
        ValueError: if the end symbols of searcher and tokenizer differ, `max_source_length` is below 2, `run` is
            another, the model has no cross-attention of this library for `attention`, or `weights` is unknown.
        OSError: if it cannot be written.

    ```python
    searcher = Searcher(transformer, beam_size=4, start_id=target.bos_id, end_id=target.eos_id)
    path = export_translator(searcher, source, target, "saved_models/translate")
    model = tf.saved_model.load(path)
    model.signatures["serving_default"](text=tf.constant(["two cats"]))["translations"]
    ```
    """
    if searcher.end_id != target_tokenizer.eos_id:
        raise ValueError(
            f"`searcher.end_id` must be the target tokenizer's, {target_tokenizer.eos_id}. "
            f"Received: searcher.end_id={searcher.end_id}"
        )
    lengths = source_buckets(searcher.model, searcher.max_length, max_source_length)
    check_shortlist(shortlist, searcher.model)

    def encode(text):
        ids, cut = source_tokenizer(text), {}
        if max_source_length is not None:
            cut = {"is_cut": is_longer(ids, max_source_length, source_tokenizer.pad_id)}
            ids = cut_ids(ids, max_source_length, source_tokenizer)
        return pad_to_bucket(ids, lengths), cut

    def texts_of(result):
        texts = target_tokenizer.detokenize(tf.reshape(result["tokens"], (-1, searcher.max_length)))
        count = searcher.num_samples or searcher.beam_size
        return {"translations": tf.reshape(texts, (-1, count)), "scores": result["scores"]}

    def best(ids, search):
        return {name: beam[:, 0] for name, beam in texts_of(search(ids)).items()}

    def n_best(ids, **constraints):
        result = search(ids, **constraints)
        if "token_scores" not in result:
            return texts_of(result)
        pieces = piece_names(target_tokenizer)(result["tokens"])
        return texts_of(result) | {"pieces": pieces, "token_scores": result["token_scores"]}

    no_prefix, shortest = tf.constant([""]), tf.constant([searcher.constraints.min_length])

    def constrained(text, prefix=no_prefix, min_length=shortest):
        ids, cut = encode(text)
        starts = target_tokenizer(tf.broadcast_to(prefix, tf.shape(text)))
        starts = tf.where(starts == target_tokenizer.eos_id, 0, starts)
        return n_best(ids, **checked(searcher, tf.shape(text), starts, min_length)) | cut

    kept = StoredWeights(searcher, weights, shortlist is not None)
    search = stored_search(searcher, kept, cpu_only=cpu_only, shortlist=shortlist)
    functions = {"serving_default": lambda ids: best(ids, search), "n_best": n_best}
    if xla_signature:
        compiled_search = stored_search(searcher, kept, jit_compile=True, shortlist=shortlist)
        functions["xla"] = lambda ids: best(ids, compiled_search)
    if attention:
        functions["attention"] = translation_attention(search, searcher, kept, source_tokenizer, target_tokenizer)
    text = tf.TensorSpec((None,), tf.string, name="text")
    signatures: dict[str, Any] = {name: (after(encode, function), [text]) for name, function in functions.items()}
    prefix = tf.TensorSpec((None,), tf.string, name="prefix")
    requests = batches("text", sample_texts(source_tokenizer, lengths), warmup_batch_sizes)
    warmup = dict.fromkeys(signatures, requests)
    warmup["constrained"] = [_unconstrained(request, np.array("", object)) for request in requests]
    signatures["constrained"] = constrained, [text, prefix, MIN_LENGTH]
    return save_signatures(signatures, folder, [source_tokenizer, target_tokenizer], run, warmup)


def export_id_translator(
    searcher: Searcher,
    folder: Path,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    weights: str = "float32",
    cpu_only: bool = False,
    shortlist: Shortlist | None = None,
) -> pathlib.Path:
    """Writes a SavedModel as `export_translator` does, from token ids, for programs without tensorflow-text.

    Its signature `serving_default` takes int32 `ids` `(B, n)`, 0 = padding, and returns int32 `ids`
    `(B, beam_size, max_length)`, best first, zeros after the end symbol, and float32 `scores` `(B, beam_size)`; with
    `return_token_scores` also `token_scores`, of the shape of `ids`. `constrained` has the optional inputs int32
    `prefix` `(B, P)`, the first ids of each translation, zeros after the last one, and `min_length` `(B,)`.

    Args:
        searcher, folder, run, warmup_batch_sizes, weights, cpu_only, shortlist: as in `export_translator`.

    Raises:
        ValueError: if `run` is another, `weights` is unknown, or `shortlist` is of other vocabularies.
        OSError: if it cannot be written.

    ```python
    path = export_id_translator(searcher, "saved_models/translate_ids")
    tf.saved_model.load(path).signatures["serving_default"](ids=tf.constant([[7, 5, 3]]))["ids"]
    ```
    """
    check_shortlist(shortlist, searcher.model)
    stored = StoredWeights(searcher, weights, shortlist is not None)
    kept = stored_search(searcher, stored, cpu_only=cpu_only, shortlist=shortlist)

    def search(ids, **constraints):
        result = kept(ids, **constraints)
        return {"ids": result.pop("tokens"), **result}

    no_prefix, shortest = tf.constant([[0]]), tf.constant([searcher.constraints.min_length])

    def constrained(ids, prefix=no_prefix, min_length=shortest):
        rows = tf.shape(ids)[:1]
        starts = tf.broadcast_to(prefix, tf.concat([rows, tf.shape(prefix)[1:]], axis=0))
        return search(ids, **checked(searcher, rows, starts, min_length))

    ids, prefix = (tf.TensorSpec((None, None), tf.int32, name=name) for name in ("ids", "prefix"))
    rows = [[1] * length for length in source_buckets(searcher.model, searcher.max_length)]
    requests = batches("ids", rows, warmup_batch_sizes)
    unconstrained = [_unconstrained(request, np.zeros(1, "int32")) for request in requests]
    warmup = {"serving_default": requests, "constrained": unconstrained}
    signatures: dict[str, Any] = {"serving_default": (search, [ids])}
    signatures["constrained"] = constrained, [ids, prefix, MIN_LENGTH]
    return save_signatures(signatures, folder, run=run, warmup=warmup)


def _unconstrained(request, prefix):
    """Returns a request with optional inputs that ask for nothing; `prefix` is that of a row."""
    rows = {"prefix": prefix, "min_length": np.zeros((), "int32")}
    (inputs,) = request.values()
    return request | {name: np.broadcast_to(row, (len(inputs), *row.shape)) for name, row in rows.items()}


def checked(searcher, rows, prefix, min_length):
    """Returns the arguments of a constrained search, as many as rows."""
    most, least = searcher.max_length, tf.reduce_max(min_length)
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(prefix != 0, tf.int32), axis=1))
    longest = tf.maximum(longest, 0)  # an empty batch has none
    tf.debugging.assert_less_equal(longest, most, f"A prefix must have at most {most} tokens.")
    tf.debugging.assert_less(least, most, f"`min_length` must be below {most}, the most tokens of a translation.")
    return {"prefix": prefix[:, :longest], "min_length": tf.broadcast_to(min_length, rows)}


def shortlisted(shortlist, sources, prefix=None):
    """Returns what `Shortlist.ids` does, in the graph."""
    table, always = tf.constant(shortlist.table, tf.int32), tf.constant(list(shortlist.always), tf.int32)
    rows = tf.gather(table, tf.boolean_mask(sources, sources != 0))
    also = tf.zeros([0], tf.int32) if prefix is None else tf.unique(tf.boolean_mask(prefix, prefix != 0))[0]
    tf.debugging.assert_less_equal(
        tf.size(also), shortlist.size, f"Prefixes may have {shortlist.size} tokens together."
    )
    ids, _ = tf.unique(tf.concat([also, always, tf.reshape(tf.transpose(rows), [-1])], axis=0))
    ids = tf.boolean_mask(ids, ids != 0)[: shortlist.size]
    return tf.ensure_shape(tf.pad(ids, [[0, shortlist.size - tf.shape(ids)[0]]]), [shortlist.size])


def stored_search(searcher, kept, jit_compile=False, cpu_only=False, shortlist=None):
    """Returns the search with `StoredWeights` as a function of ids `(B, n)`, in one thread if `cpu_only`."""

    def search(ids, **constraints):
        return searcher.search(ids, *kept.read(), **constraints)

    traced = in_one_thread(search) if cpu_only else tf.function(search, autograph=False, jit_compile=jit_compile)

    def call(ids, **constraints):
        if shortlist is not None:
            constraints["shortlist"] = shortlisted(shortlist, ids, constraints.get("prefix"))
        return traced(ids, **constraints)

    return call
