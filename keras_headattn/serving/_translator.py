"""Translation of lists of sentences."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._validation import check_positive
from keras_headattn.data import source_batches, source_lengths
from keras_headattn.decoding import Searcher
from keras_headattn.serving._buckets import bucket_lengths
from keras_headattn.text import LanguagePair, MosesPreprocessor, SentencePieceTokenizer


@dataclasses.dataclass(frozen=True)
class Translation:
    """Translation of a sentence.

    Args:
        text: str.
        score: float, log probability divided by the length penalty.
        is_cut: bool, True if the source was too long, so that its end is not translated. Default False.
    """

    text: str
    score: float
    is_cut: bool = False


class Translator:
    """Translator: sentences in, translations out.

    Sentences are sorted by length and searched in batches of a few shapes, each compiled once.

    Args:
        model: trained `Transformer`, or any model for `decoding.Searcher`.
        source_tokenizer, target_tokenizer: `SentencePieceTokenizer`.
        beam_size: int, 1 for greedy search. Default 4.
        alpha: float, exponent of the length penalty. Default 0.6.
        max_length: int, most tokens of a translation, including its end symbol. Default 128.
        max_source_length: int, most tokens of a source, including its end symbol; longer ones are cut. Default `None`:
            about twice `max_length`, and at most the number of the model's learned positions.
        source_moses, target_moses: `MosesPreprocessor`, applied before tokenizers and undone after. Default `None`.
        batch_size: int, sentences searched together. Default 64.
        jit_compile: bool, True to compile with XLA: faster, after a few seconds for each shape. Default True.
        start_id: int, token id before a translation. Default `None`: `target_tokenizer.bos_id`, or its padding (as in
            T5) if it has none.
        suppress: token ids that are never produced. Default `None`: the model's, see `decoding.Searcher`.

    Call arguments:
        sentences: list of str. Empty sentences stay empty.
        progress: function of the number of sentences done, called after each batch. Default `None`.

    Returns:
        List of `Translation`, one for each sentence.

    Raises:
        ValueError: if the beam is too wide for the vocabulary, `sentences` is a str, or `Searcher` refuses an argument.

    Attributes:
        searcher: the `Searcher`, for `export_translator`.
        text: the `LanguagePair`.

    >>> import functools
    >>> from keras_headattn.data import TokenBatches, teacher_forcing
    >>> from keras_headattn.models import Transformer
    >>> english, german = ["a cat sat", "a dog ran"], ["eine Katze saß", "ein Hund rannte"]
    >>> pair = LanguagePair.learn("demo", (english, german), vocabulary_size=32)
    >>> columns = {"source": pair.encode_source(english), "target": pair.encode_target(german)}
    >>> shift = functools.partial(teacher_forcing, bos_id=pair.target.bos_id)
    >>> batches = TokenBatches(columns, tokens_per_batch=32, bucket_lengths=(16,), preprocess=shift)
    >>> model = Transformer(32, num_layers=1, hidden_dim=16, intermediate_dim=32, dropout=0.0)
    >>> loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    >>> history = model.fit(batches, epochs=60, shuffle=False, verbose=0)
    >>> translate = Translator(model, pair.source, pair.target, beam_size=2, max_length=16, jit_compile=False)
    >>> [translation.text for translation in translate(["a dog ran", "a cat sat"])]
    ['ein Hund rannte', 'eine Katze saß']
    """

    def __init__(
        self,
        model: keras.Model,
        source_tokenizer: SentencePieceTokenizer,
        target_tokenizer: SentencePieceTokenizer,
        beam_size: int = 4,
        alpha: float = 0.6,
        max_length: int = 128,
        max_source_length: int | None = None,
        source_moses: MosesPreprocessor | None = None,
        target_moses: MosesPreprocessor | None = None,
        batch_size: int = 64,
        jit_compile: bool = True,
        start_id: int | None = None,
        suppress: Sequence[int] | None = None,
    ):
        self.text = LanguagePair(source_tokenizer, target_tokenizer, source_moses, target_moses)
        self.batch_size = check_positive("batch_size", batch_size)
        if start_id is None:
            start_id = target_tokenizer.bos_id if target_tokenizer.bos_id >= 0 else target_tokenizer.pad_id
        self.searcher = Searcher(
            model, beam_size, alpha, max_length, start_id, target_tokenizer.eos_id, suppress=suppress
        )
        pieces = target_tokenizer.vocabulary_size
        if 2 * beam_size > pieces:
            raise ValueError(f"`beam_size` must be at most half of {pieces} pieces. Received: beam_size={beam_size}")
        self.buckets = source_buckets(model, max_length, max_source_length)
        self._search = tf.function(self.searcher, jit_compile=jit_compile, autograph=False)

    @property
    def max_source_length(self) -> int:
        """int, most tokens of a source."""
        return self.buckets[-1]

    def __call__(self, sentences: Sequence[str], progress: Callable[[int], Any] | None = None) -> list[Translation]:
        if isinstance(sentences, str):
            raise ValueError(f"`sentences` must be a list of str. Received: the str {sentences[:60]!r}")
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        ids = self.text.encode_source([sentences[place] for place in places])
        is_cut = [len(row) > self.max_source_length for row in ids]
        ids = [self._cut(row) if cut else row for row, cut in zip(ids, is_cut, strict=True)]
        translations = [Translation("", 0.0)] * len(sentences)
        done = len(sentences) - len(places)
        kernels = self.searcher.decoding_kernels()  # once, not in each batch
        for indices, batch in source_batches(ids, self.buckets, self.batch_size if len(ids) > 1 else 1):
            result = self._search_of(batch.shape, kernels)(tf.constant(batch), kernels)
            texts = self.text.decode(result["tokens"][: len(indices), 0])
            for index, text, score in zip(indices, texts, result["scores"][:, 0].numpy(), strict=False):
                translations[places[index]] = Translation(text, float(score), is_cut[index])
            done += len(indices)
            if progress:
                progress(done)
        return translations

    def _search_of(self, shape, kernels):
        """Returns the search for a shape of batch; calling the function instead would warn of retracing."""
        return self._search.get_concrete_function(tf.TensorSpec(shape, tf.int32), kernels)

    def _cut(self, row):
        source, last = self.text.source, self.max_source_length - 1
        return np.append(row[:last], source.eos_id if source.add_eos else row[last])


def source_buckets(model, max_length, max_source_length=None):
    """Returns the lengths that sources are padded to; the last is the most tokens of a source."""
    longest, positions = source_lengths(max_length)[-1], getattr(model, "max_length", None)
    if positions is not None:
        longest = min(longest, positions)
    if max_source_length is not None:
        longest = max_source_length
    if longest < 2 or longest > (positions or longest):
        most = "" if positions is None else f", and at most {positions}, the model's learned positions"
        raise ValueError(
            f"`max_source_length` must be at least 2, a token and the end symbol{most}. "
            f"Received: max_source_length={longest}"
        )
    return bucket_lengths(longest)
