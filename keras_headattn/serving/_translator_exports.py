"""A search as a SavedModel: from text to text, or from ids to ids."""

import pathlib
from collections.abc import Sequence

import tensorflow as tf

from headattn_io.files import Path
from keras_headattn._private import in_sequence
from keras_headattn.decoding import Searcher
from keras_headattn.serving._attention_signature import translation_attention
from keras_headattn.serving._buckets import cut_ids, is_longer, pad_to_bucket
from keras_headattn.serving._stored_weights import StoredWeights
from keras_headattn.serving._translator import source_buckets
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text import SentencePieceTokenizer


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
) -> pathlib.Path:
    """Writes a SavedModel that translates text, with both vocabularies inside.

    It runs wherever TensorFlow and tensorflow-text do; this library is not needed there. Signatures:

    - `serving_default`: strings `text` `(B,)` to the best `translations` `(B,)`, strings, and their `scores`
      `(B,)`, float32;
    - `n_best`: the same of the whole beam, `(B, beam_size)`, in the order of `decoding.beam_search`. Where there are
      fewer hypotheses the rest are empty strings with a score of -1e9;
    - `xla`, if asked for: as `serving_default`, with a search compiled by XLA for each batch size and each bucket. The
      other signatures need no XLA.
    - `attention`, if asked for: the outputs of `serving_default`, strings `source_pieces` `(B, n)` and `target_pieces`
      `(B, m)`, `""` where there is padding, and float32 `weights` `(B, layers, heads, m, n)` of the cross-attention: a
      row is where each head looked when the model wrote that piece. Heads in pairs are `heads * heads` maps.

    With `max_source_length` every signature also returns boolean `is_cut` `(B,)`: true where a source was longer, so
    that its end was not translated.

    Sources are padded to the lengths of few buckets, those of `Translator`. What decoding multiplies with is made once
    and kept in the SavedModel, see `Attention.decoding_kernels`.

    Args:
        searcher: `Searcher` around a trained model.
        source_tokenizer: `SentencePieceTokenizer` of the source.
        target_tokenizer: `SentencePieceTokenizer` of the target.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only
            when complete, and older versions stay as they are.
        xla_signature: bool, whether to add the signature `xla`. Default False.
        max_source_length: int, ids of a source beyond which it is cut; it keeps its end symbol. Default `None`:
            no source is cut, and a long one may take all of the server's memory.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has no name.
        warmup_batch_sizes: ints, batch sizes for which requests are written that a server runs before others:
            `allowed_batch_sizes` of one that batches. Default (1, 8); none are written for an empty tuple.
        attention: bool, whether to add the signature `attention`. Default False.
        weights: what large matrices are kept as, for fewer bytes: `"float32"`, the default; `"bfloat16"`, half as many;
            or `"int8"`, a quarter, with a factor for each output of a kernel and for each token of an embedding. A call
            makes them float32 again before it multiplies, so it takes a little longer, not less.
        cpu_only: bool, whether servers have no GPU. The many small operations of a search then run in one thread, which
            takes two thirds of the time on a CPU; TensorFlow does not run such a model on a GPU. Default False.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the searcher and the target tokenizer disagree on the end symbol, or `max_source_length` has
            no room for text, or if the folder has the model of another run, or if `attention` is asked for and the
            model has no cross-attention of this library; or for other `weights`.
        OSError: if it cannot be written.

    Example:

    ```python
    searcher = Searcher(transformer, beam_size=4, start_id=target.bos_id, end_id=target.eos_id)
    path = export_translator(searcher, source, target, "saved_models/translate")
    model = tf.saved_model.load(path)
    model.signatures["serving_default"](text=tf.constant(["two cats"]))["translations"]
    ```
    """
    if searcher.end_id != target_tokenizer.eos_id:
        raise ValueError(
            "A translation must end with the end symbol of the target tokenizer: make the searcher with "
            f"`end_id=target_tokenizer.eos_id`, here {target_tokenizer.eos_id}. "
            f"Received: searcher.end_id={searcher.end_id}"
        )
    if max_source_length is not None and max_source_length < 2:
        raise ValueError(
            "`max_source_length` must have room for a token beside the end symbol. "
            f"Received: max_source_length={max_source_length}"
        )

    lengths = source_buckets(searcher.model, searcher.max_length, max_source_length)

    def encode(text):
        ids, cut = source_tokenizer(text), {}
        if max_source_length is not None:
            cut = {"is_cut": is_longer(ids, max_source_length, source_tokenizer.pad_id)}
            ids = cut_ids(ids, max_source_length, source_tokenizer)
        return pad_to_bucket(ids, lengths), cut

    def of_text(function):
        def call(text):
            ids, cut = encode(text)
            return function(ids) | cut

        return call

    def n_best(ids, search):
        found = search(ids)
        texts = target_tokenizer.detokenize(tf.reshape(found["tokens"], (-1, searcher.max_length)))
        return {"translations": tf.reshape(texts, (-1, searcher.beam_size)), "scores": found["scores"]}

    def best(ids, search):
        return {name: beam[:, 0] for name, beam in n_best(ids, search).items()}

    kept = StoredWeights(searcher, weights)
    search = stored_search(searcher, kept, cpu_only=cpu_only)
    functions = {"serving_default": lambda ids: best(ids, search), "n_best": lambda ids: n_best(ids, search)}
    if xla_signature:
        compiled_search = stored_search(searcher, kept, jit_compile=True)
        functions["xla"] = lambda ids: best(ids, compiled_search)
    if attention:
        functions["attention"] = translation_attention(search, searcher, kept, source_tokenizer, target_tokenizer)
    text = tf.TensorSpec((None,), tf.string, name="text")
    signatures = {name: (of_text(function), [text]) for name, function in functions.items()}
    requests = batches("text", sample_texts(source_tokenizer, lengths), warmup_batch_sizes)
    tokenizers = [source_tokenizer, target_tokenizer]
    return save_signatures(signatures, folder, tokenizers, run, dict.fromkeys(signatures, requests))


def export_id_translator(
    searcher: Searcher,
    folder: Path,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    weights: str = "float32",
    cpu_only: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that translates token ids, for programs that have TensorFlow alone.

    It is a model of its own, as a model with a tokenizer does not even load without tensorflow-text. Its signature
    `serving_default` takes int32 `ids` `(B, n)`, 0 = padding, and returns int32 `ids` `(B, beam_size, max_length)`,
    best first, zeros after the end symbol, and float32 `scores` `(B, beam_size)`.

    Args:
        searcher: `Searcher` around a trained model.
        folder: str or path, where the next version is written, as in `export_translator`.
        run: str, as `export_translator` takes it. Default `None`: the model has no name.
        warmup_batch_sizes: ints, as `export_translator` takes them. Default (1, 8).
        weights: what large matrices are kept as, as `export_translator` takes it. Default `"float32"`.
        cpu_only: bool, whether servers have no GPU, as `export_translator` takes it. Default False.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the folder has the model of another run, or for other `weights`.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_id_translator(searcher, "saved_models/translate_ids")
    model = tf.saved_model.load(path)
    model.signatures["serving_default"](ids=tf.constant([[7, 5, 3]]))["ids"]
    ```
    """

    kept = stored_search(searcher, StoredWeights(searcher, weights), cpu_only=cpu_only)

    def search(ids):
        found = kept(ids)
        return {"ids": found["tokens"], "scores": found["scores"]}

    ids = tf.TensorSpec((None, None), tf.int32, name="ids")
    rows = [[1] * length for length in source_buckets(searcher.model, searcher.max_length)]
    warmup = {"serving_default": batches("ids", rows, warmup_batch_sizes)}
    return save_signatures({"serving_default": (search, [ids])}, folder, run=run, warmup=warmup)


def stored_search(searcher, kept, jit_compile=False, cpu_only=False):
    """Returns the search with `StoredWeights` as a function of ids `(B, n)`, which runs in one thread if `cpu_only`."""
    search = tf.function(
        lambda ids: searcher.search(ids, *kept.read()),
        autograph=False,
        jit_compile=jit_compile,
        experimental_attributes={"_noinline": True} if cpu_only else None,  # inlined, it would have several threads
    )
    if not cpu_only:
        return search

    def call(ids):
        with in_sequence():
            return search(ids)

    return call
