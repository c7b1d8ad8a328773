"""Texts of language models, in Python and as SavedModels."""

import functools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._validation import check_index
from keras_headattn.decoding import Generator
from keras_headattn.decoding._stop_texts import StopTexts
from keras_headattn.serving._attention_signature import generation_attention
from keras_headattn.serving._generation_options import (
    OPTIONS,
    assert_options,
    by_name,
    check_options,
    check_stop,
    cut,
    until,
)
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches
from keras_headattn.text._added_tokens import clean_utf8

PROMPTS = tf.TensorSpec((None,), tf.string, name="prompts")
TEXTS = tf.TensorSpec((None,), tf.string, name="texts")
SEED = tf.TensorSpec((), tf.int32, name="seed")


class TextGenerator:
    """Generator of text: prompts in, texts that go on after them out.

    Prompts that are too long for the model's positions lose their beginning, but not its `bos_id`.

    Args:
        model: trained `CausalLM`, or any model for `decoding.Generator`.
        tokenizer: its tokenizer, such as `ByteTokenizer` or `BytePairTokenizer`. If it has an `eos_id`, as documents of
            the training text end with, that ends texts, and comes before prompts unless these begin with a `bos_id`.
        stop: list of at most 8 str of at most 64 bytes; a text ends before the first of them. Default: none.
        **generator_arguments: arguments of `decoding.Generator`, such as `max_length`, `temperature` or `num_samples`.
            Give `end_ids` for a checkpoint with several `eos_token_id` in its generation_config.json.

    Call arguments:
        prompts: list of str.
        seed: int; the same seed writes the same texts. Default: that of the generator.
        **options: `stop` of this call, and `temperature`, `top_k`, `top_p`, `max_tokens` and `min_tokens`, as of
            `Generator.request`. A generator with a `beam_size` takes none.

    Returns:
        List with a list of `num_samples` str for each prompt.

    Raises:
        ValueError: if `prompts` is a str or has an empty one without an `eos_id` to begin with, if model and tokenizer
            disagree on the number of tokens, if the tokenizer ends texts or the model has no positions for a prompt,
            and what `Generator` raises.

    Attributes:
        generator: the `decoding.Generator`.

    >>> from keras_headattn.models import CausalLM
    >>> from keras_headattn.text import ByteTokenizer
    >>> model = CausalLM(257, num_layers=1, hidden_dim=16, num_heads=4, attention="talking_heads")
    >>> write = TextGenerator(model, ByteTokenizer(), max_length=5, num_samples=2)
    >>> [len(texts) for texts in write(["one, two, ", "seven"])]
    [2, 2]
    >>> "".join(write.stream("one, ")) == write(["one, "])[0][0]
    True
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: keras.layers.Layer,
        stop: Sequence[str] = (),
        **generator_arguments: Any,
    ):
        ends = [tokenizer.eos_id] if tokenizer.eos_id >= 0 else []
        marks = tokenizer.encode([""])[0].tolist()  # of an empty text
        begins = marks[:1] == [tokenizer.bos_id]
        if len(marks) > begins:
            raise ValueError(f"`tokenizer` must not end texts: give `add_eos=False`. Received: one that adds {marks}")
        self.tokenizer, self.stop = tokenizer, check_stop("stop", stop)
        start = [] if begins else ends
        self.generator = Generator(model, **{"start_ids": start, "end_ids": ends, **generator_arguments})
        self.generator.stop_texts = StopTexts(tokenizer.token_texts)
        if (most := _longest_prompt(self.generator)) < 1:
            raise ValueError(
                "`max_length` and `start_ids` must leave a position for prompts. Received: max_length="
                f"{self.generator.max_length}, {len(self.generator.start_ids)} start_ids, {most} positions left of "
                f"{model.position_count}"
            )
        if self.stop and self.generator.beam_size:
            raise ValueError(f"`stop` is for generators without a `beam_size`. Received: stop={self.stop}")
        if tokenizer.vocabulary_size > model.vocabulary_size:
            raise ValueError(
                "`tokenizer` must have at most as many tokens as the model. "
                f"Received: {tokenizer.vocabulary_size} for {model.vocabulary_size}"
            )
        self.generator.build()
        text = _generate_text(self.generator, tokenizer)
        self._text = tf.function(text, input_signature=[PROMPTS, SEED], autograph=False)
        self._text_of_request = tf.function(text, input_signature=[PROMPTS, SEED, *OPTIONS], autograph=False)

    def __call__(
        self, prompts: Sequence[str], seed: int | None = None, **options: float | Sequence[str] | None
    ) -> list[list[str]]:
        if isinstance(prompts, str):
            raise ValueError(f"`prompts` must be a list of str. Received: the str {prompts[:60]!r}")
        self.tokenizer.encode(list(prompts))  # an error for texts that it cannot read, which a graph would word badly
        seed, values = self.generator.seed if seed is None else check_index("seed", seed), self._options(options)
        groups = (
            [[*range(len(prompts))]] if self.generator.model.takes_documents else [[i] for i in range(len(prompts))]
        )
        texts: list[list[str]] = [[] for _ in prompts]
        for group in filter(None, groups):
            text = self._text_of_request if values else self._text
            rows = text(tf.constant([prompts[i] for i in group]), tf.constant(seed), *values)["texts"].numpy()
            for index, row in zip(group, rows, strict=True):
                texts[index] = [text.decode() for text in row]
        return texts

    def _options(self, options):
        """Returns checked options of a call as tensors, in the order of `OPTIONS`; none if none is given."""
        if options and self.generator.beam_size:
            raise ValueError(f"A generator with a `beam_size` takes no options. Received: {', '.join(options)}")
        check_options(options)
        return _tensors(self, **options) if options or self.stop else []

    def stream(self, prompt: str, seed: int | None = None, **options: float | Sequence[str] | None) -> Iterator[str]:
        """Yields pieces of the first text for a prompt as soon as they are complete; joined, they are that text.

        Args:
            prompt: str.
            seed, **options: as in a call.
        """
        values, stop = self._options(options), options.get("stop")
        ids, lengths, _ = _read_prompts(self.generator, self.tokenizer, [prompt])
        pieces = self._pieces(self.generator.stream(ids, lengths, seed, by_name(values)))
        return until(pieces, self.stop if stop is None else stop)

    def _pieces(self, steps):
        """Yields the text of tokens as soon as its characters are complete."""
        decoder = self.tokenizer.stream_decoder()
        for tokens in steps:
            token = int(tokens[0, 0])
            if token in self.generator.end_ids:
                break
            if piece := decoder.decode(token):
                yield piece
        if piece := decoder.finish():
            yield piece

    def score(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Computes the log probability of each token of texts, given those before it.

        Args:
            texts: list of str.

        Returns:
            List of float32 arrays, one for each text. Without an `eos_id` the first token has none.
        """
        return [_score(self.generator, self.tokenizer, [text])["token_scores"].numpy()[0] for text in texts]


def export_generator(
    model: keras.Model,
    tokenizer: keras.layers.Layer,
    folder: Path,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    attention: bool = False,
    **generator_arguments: Any,
) -> pathlib.Path:
    """Writes a SavedModel that writes text, its tokenizer included, and returns the `Path` of the new version.

    Its signatures:

    - `serving_default`: strings `prompts` `(B,)` to strings `texts` `(B, num_samples)`, what goes on after each prompt,
      float32 `scores` and int32 `lengths` `(B, num_samples)`, log probabilities and numbers of tokens, and boolean
      `is_cut` `(B,)`, True if the beginning of a prompt was left out. Its seed is the generator's;
    - `generate`, without a `beam_size`: the same of `prompts` and scalars, int32 `seed`, float32 `temperature`, int32
      `top_k` (0 for none), float32 `top_p` (1 for none), int32 `max_tokens` and `min_tokens`, and of strings `stop`
      `(K,)`, which may be none. TensorFlow Serving fills in those that a gRPC request leaves out; requests over REST
      and calls in Python need all;
    - `score`: strings `texts` `(B,)` to float32 `scores` `(B,)`, log probabilities, and `token_scores` `(B, n)`, 0 at
      padding;
    - with `attention`, `attention`: strings `prompts` `(B,)` to the first of `texts` `(B,)`, its `scores` `(B,)`,
      strings `pieces` `(B, n)`, the tokens of prompt and text, and float32 `weights` `(B, blocks, h, n, n)`, where each
      token looked; and `is_cut`. `recipes.serve` shows them. Its seed is the generator's.

    Prompts of a request must have the same number of tokens for attention that refuses documents in a row, see
    `CausalLM`.

    Args:
        model, tokenizer: as in `TextGenerator`.
        folder: str or path. The next version is written to `folder/1`, `folder/2`, ... and appears only when complete.
        run, warmup_batch_sizes, attention: as in `export_classifier`.
        **generator_arguments: as in `TextGenerator`.

    Raises:
        ValueError: if `run` is another, and as `TextGenerator`.
        OSError: if it cannot be written.

    ```python
    path = export_generator(model, tokenizer, "saved_models/lm", max_length=100, temperature=0.8)
    tf.saved_model.load(path).signatures["serving_default"](prompts=tf.constant(["ROMEO:"]))["texts"]
    ```
    """
    write = TextGenerator(model, tokenizer, **generator_arguments)
    generator, seed, own = write.generator, tf.constant(write.generator.seed), _tensors(write)
    text, values = _generate_text(generator, tokenizer), own if write.stop else []

    def call(prompts):
        return text(prompts, seed, *values)

    def generate(prompts, seed=seed, temperature=own[0], top_k=own[1], top_p=own[2], max_tokens=own[3],
                 min_tokens=own[4], stop=own[5]):  # fmt: skip
        return text(prompts, seed, temperature, top_k, top_p, max_tokens, min_tokens, stop)

    def score(texts):
        return _score(generator, tokenizer, texts)

    signatures: dict[str, Any] = {"serving_default": (call, [PROMPTS]), "score": (score, [TEXTS])}
    if not generator.beam_size:
        signatures["generate"] = generate, [PROMPTS, SEED, *OPTIONS]
    if attention:
        read = functools.partial(_read_prompts, generator, tokenizer)
        texts_of = functools.partial(_texts_of, generator, tokenizer, values=values)
        attend = generation_attention(generator, tokenizer, read, texts_of, by_name(values))
        signatures["attention"] = attend, [PROMPTS]
    options = {"seed": seed, **dict(zip((spec.name for spec in OPTIONS), own, strict=True))}
    options = {name: value.numpy() for name, value in options.items()}
    requests = {
        name: [
            inputs | (options if name == "generate" else {})
            for inputs in batches(specs[0].name, ["a"], warmup_batch_sizes)
        ]
        for name, (_, specs) in signatures.items()
    }
    return save_signatures(signatures, folder, [tokenizer], run, requests)


def _generate_text(generator, tokenizer):
    """Returns a function of prompts `(B,)`, a seed and options of sampling that returns texts, scores and lengths."""

    def call(prompts, seed, *values):
        ids, lengths, cut = _read_prompts(generator, tokenizer, prompts)
        if values:
            assert_options(values, generator.max_length)
        result = generator(ids, lengths, seed=seed, options=by_name(values))
        tokens = result["tokens"]
        after = tf.range(generator.max_length) >= result["lengths"][..., None]
        tokens = tf.where(after, -1, tokens)
        texts = _texts_of(generator, tokenizer, tf.reshape(tokens, (-1, generator.max_length)), values)
        count = generator.beam_size or generator.num_samples
        return {
            "texts": tf.reshape(texts, (-1, count)),
            "scores": result["scores"],
            "lengths": result["lengths"],
            "is_cut": cut,
        }

    return call


def _tensors(write, stop=None, **options):
    """Returns options of a call as tensors, in the order of `OPTIONS`; the generator's, where none is given."""
    stop = tf.constant([*(write.stop if stop is None else stop)], tf.string)
    return [*write.generator.request(**options).values(), stop]


def _texts_of(generator, tokenizer, tokens, values):
    """Returns the texts of tokens `(B, n)`, padded with -1, without the end and what options of a call cut off."""
    is_end = tf.reduce_any(tokens[..., None] == tf.constant(generator.end_ids, tf.int32), axis=-1)
    texts = clean_utf8(tokenizer.detokenize(tf.where(is_end, -1, tokens)))
    return cut(texts, values[-1]) if values else texts


def _read_prompts(generator, tokenizer, prompts):
    """Returns ids `(B, n)`, lengths `(B,)` (`None` if all are equal) and whether prompts are cut, `(B,)`."""
    model, ids, least = generator.model, tokenizer(prompts), 0 if generator.start_ids else 1
    lengths = tf.reduce_sum(tf.cast(ids != tokenizer.pad_id, tf.int32), axis=1)
    kept = tf.minimum(lengths, min(_longest_prompt(generator), ids.dtype.max))
    width = tf.maximum(least, tf.reduce_max(tf.concat([kept, [0]], axis=0)))
    index = tf.minimum((lengths - kept)[:, None] + tf.range(width), tf.shape(ids)[1] - 1)
    ids = tf.pad(ids, [[0, 0], [0, 1]])
    index = tf.where((ids[:, :1] == tokenizer.bos_id) & (tf.range(width) == 0), 0, index)  # a beginning token stays
    is_real = tf.range(width) < kept[:, None]
    ids = tf.where(is_real, tf.gather(ids, tf.maximum(index, 0), batch_dims=1), 0)
    message = "Each prompt must have a token." if not generator.start_ids else "Prompts must be texts."
    tf.debugging.assert_greater_equal(kept, least, message)
    if model.takes_documents:
        return ids, kept, lengths > kept
    tf.debugging.assert_equal(kept, width, "Prompts of a request must have the same number of tokens for this model.")
    return ids, None, lengths > kept


def _longest_prompt(generator):
    """Returns how many tokens of a prompt fit the model's positions."""
    most = getattr(generator.model, "position_count", None)
    return math.inf if most is None else most - generator.max_length - len(generator.start_ids)


def _score(generator, tokenizer, texts):
    """Returns the log probabilities of texts and of their tokens."""
    ids = tokenizer(texts)
    is_real = ids != tokenizer.pad_id
    start = tf.fill((tf.shape(ids)[0], len(generator.start_ids)), 0) + tf.constant([*generator.start_ids], tf.int32)
    ids = tf.concat([start, tf.where(is_real, ids, 0)], axis=1)
    logits = generator.model(ids[:, :-1], training=False)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], logits)
    is_real = tf.pad(is_real, [[0, 0], [len(generator.start_ids), 0]], constant_values=True)[:, 1:]
    scores = tf.where(is_real, -losses, 0.0)
    return {"scores": tf.reduce_sum(scores, axis=1), "token_scores": scores}
