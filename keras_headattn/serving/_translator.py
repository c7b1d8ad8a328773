"""Translation of lists of sentences."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._validation import check_boolean, check_positive
from keras_headattn.data import pad_ids, source_batches, source_lengths
from keras_headattn.decoding import Searcher, Shortlist
from keras_headattn.decoding._searcher import cross_attention
from keras_headattn.decoding._shortlist import check_shortlist
from keras_headattn.layers import capture_intermediates
from keras_headattn.serving._buckets import bucket_lengths
from keras_headattn.text import LanguagePair, MosesPreprocessor, SentencePieceTokenizer

MISSING = -1e9  # score of a hypothesis that is none
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # mark of a word's beginning


@dataclasses.dataclass(frozen=True)
class Translation:
    """Translation of a sentence.

    Args:
        text: str.
        score: float, log probability divided by the length penalty.
        is_cut: bool, True if the source was too long, so that its end is not translated. Default False.
        token_scores: tuple of `(token, log probability)`, if the searcher returns them. Default `()`.
        others: other translations of the sentence, best first; samples in the order drawn. Default `()`.
    """

    text: str
    score: float
    is_cut: bool = False
    token_scores: tuple[tuple[str, float], ...] = ()
    others: tuple["Translation", ...] = ()


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
        num_hypotheses: int, translations of each sentence, at most `beam_size` or `num_samples`. Default `None`: 1, or
            all samples.
        replace_unknown: bool, True to replace each unknown piece by the source piece with the most cross-attention,
            averaged over heads and layers. Default False: it is written as `⁇`.
        shortlist: `decoding.Shortlist`, to search among few tokens for each batch, with fewer logits. Default `None`:
            all.
        **search_arguments: other arguments of `decoding.Searcher`, such as `min_length` or `num_samples`.

    Call arguments:
        sentences: list of str. Empty sentences stay empty.
        progress: function of the number of sentences done, called after each batch. Default `None`.
        prefixes: list of str, the start of each translation, `""` for none. Default `None`.

    Returns:
        List of `Translation`, one for each sentence.

    Raises:
        ValueError: if the beam is too wide for the vocabulary, `num_hypotheses` too large, `sentences` a str, or a
            prefix longer than `max_length`; if there is not one prefix for each sentence; and what `Searcher` raises.

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
        num_hypotheses: int | None = None,
        replace_unknown: bool = False,
        shortlist: Shortlist | None = None,
        **search_arguments: Any,
    ):
        self.text = LanguagePair(source_tokenizer, target_tokenizer, source_moses, target_moses)
        self.batch_size = check_positive("batch_size", batch_size)
        if start_id is None:
            start_id = target_tokenizer.bos_id if target_tokenizer.bos_id >= 0 else target_tokenizer.pad_id
        self.searcher = Searcher(
            model, beam_size, alpha, max_length, start_id, target_tokenizer.eos_id, **search_arguments
        )
        samples = self.searcher.num_samples
        self.num_hypotheses = check_positive(
            "num_hypotheses", samples or 1 if num_hypotheses is None else num_hypotheses
        )
        if self.num_hypotheses > (samples or beam_size):
            raise ValueError(
                f"`num_hypotheses` must be at most {samples or beam_size}, the number searched for. "
                f"Received: num_hypotheses={num_hypotheses}"
            )
        self.shortlist = check_shortlist(shortlist, model)
        self.replace_unknown = check_boolean("replace_unknown", replace_unknown)
        pieces = target_tokenizer.vocabulary_size
        if samples is None and 2 * beam_size > pieces:
            raise ValueError(f"`beam_size` must be at most half of {pieces} pieces. Received: beam_size={beam_size}")
        self.buckets = source_buckets(model, max_length, max_source_length)
        self._search = tf.function(self.searcher, jit_compile=jit_compile, autograph=False)
        self._kernels = tf.function(self.searcher.decoding_kernels, autograph=False)
        self._score = tf.function(self.searcher.score, jit_compile=jit_compile, autograph=False, reduce_retracing=True)

    @property
    def max_source_length(self) -> int:
        """int, most tokens of a source."""
        return self.buckets[-1]

    def __call__(
        self,
        sentences: Sequence[str],
        progress: Callable[[int], Any] | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[Translation]:
        if isinstance(sentences, str):
            raise ValueError(f"`sentences` must be a list of str. Received: the str {sentences[:60]!r}")
        positions = [position for position, sentence in enumerate(sentences) if sentence.strip()]
        ids, is_cut = self._source([sentences[position] for position in positions])
        prefix_ids = None if prefixes is None else self._prefix(sentences, prefixes)[positions]
        translations = [Translation("", 0.0)] * len(sentences)
        done = len(sentences) - len(positions)
        kernels = self._kernels()  # once, not in each batch
        for indices, batch in source_batches(ids, self.buckets, self.batch_size if len(ids) > 1 else 1):
            prefix = None if prefix_ids is None else pad_ids(prefix_ids[indices], len(batch), prefix_ids.shape[1])
            among = None if self.shortlist is None else self.shortlist.ids(batch, () if prefix is None else prefix)
            result = self._search_of(batch.shape, kernels, prefix, among)(
                tf.constant(batch), kernels, prefix, None, among
            )
            rows = [sentences[positions[index]] for index in indices]
            for index, hypotheses in zip(indices, self._translations(result, rows, batch), strict=True):
                first, *others = (dataclasses.replace(hypothesis, is_cut=is_cut[index]) for hypothesis in hypotheses)
                others = tuple(hypothesis for hypothesis in others if hypothesis.score > MISSING)
                translations[positions[index]] = dataclasses.replace(first, others=others)
            done += len(indices)
            if progress:
                progress(done)
        return translations

    def _source(self, sentences):
        """Returns the token ids of sentences, and which of them are cut."""
        ids = self.text.encode_source(sentences)
        is_cut = [len(row) > self.max_source_length for row in ids]
        return [self._cut(row) if cut else row for row, cut in zip(ids, is_cut, strict=True)], is_cut

    def _prefix(self, sentences, prefixes):
        """Returns the tokens of prefixes, `(N, P)`."""
        if isinstance(prefixes, str) or len(prefixes) != len(sentences):
            raise ValueError(
                f"`prefixes` must be a list of {len(sentences)} str, one for each sentence. Received: {prefixes!r:.60}"
            )
        rows = [[token for token in row if token != self.searcher.end_id] for row in self.text.encode_target(prefixes)]
        longest = max(map(len, rows), default=0)
        if longest > self.searcher.max_length:
            raise ValueError(
                f"A prefix must have at most {self.searcher.max_length} tokens, as `max_length` says. "
                f"Received: {longest} tokens, {prefixes[[*map(len, rows)].index(longest)][:60]!r}"
            )
        width = min(self.searcher.max_length, max(8, -(-longest // 8) * 8))  # few shapes
        return pad_ids(rows, len(rows), width)

    def _translations(self, result, sentences, source):
        """Yields the translations of each sentence of a batch."""
        count = len(sentences)
        tokens, scores = (result[name][:count, : self.num_hypotheses].numpy() for name in ("tokens", "scores"))
        texts = self.text.decode(tokens.reshape(-1, tokens.shape[-1]))
        unknown = np.argwhere((tokens == self.text.target.unk_id).any(-1)) if self.replace_unknown else ()
        if len(unknown):
            rows, columns = unknown.T
            written = self._without_unknown([sentences[row] for row in rows], source[rows], tokens[rows, columns])
            for index, text in zip(rows * self.num_hypotheses + columns, written, strict=True):
                texts[index] = text
        token_scores = [()] * len(texts)
        if "token_scores" in result:
            rows = result["token_scores"][:count, : self.num_hypotheses].numpy().reshape(-1, tokens.shape[-1])
            token_scores = [self._scored(*pair) for pair in zip(tokens.reshape(rows.shape), rows, strict=True)]
        translations = [
            Translation(text, float(score), token_scores=by_token)
            for text, score, by_token in zip(texts, scores.ravel(), token_scores, strict=True)
        ]
        for i in range(count):
            yield translations[i * self.num_hypotheses : (i + 1) * self.num_hypotheses]

    def _without_unknown(self, sentences, source, tokens):
        """Returns the texts of `tokens` `(B, m)` with source pieces in place of unknown ones."""
        text, start = self.text, np.full_like(tokens[:, :1], self.searcher.start_id)
        with capture_intermediates() as layers:
            self.searcher.model({"source": source, "target": np.hstack([start, tokens[:, :-1]])}, training=False)
        weights = keras.ops.convert_to_numpy(cross_attention(layers))  # (B, m, n)
        special = (text.source.pad_id, text.source.bos_id, text.source.eos_id)
        weights = np.where(np.isin(source, special)[:, None], -1.0, weights)
        read, written = text.prepare_source(sentences), []
        for sentence, row, ids in zip(read, weights.argmax(-1), tokens, strict=True):
            pieces = text.source.encode_pieces(sentence)
            named = [
                pieces[position].strip(SPACE) if token == text.target.unk_id else text.target.id_to_token(token)
                for token, position in zip(ids.tolist(), row.tolist(), strict=True)
                if token not in (text.target.pad_id, self.searcher.end_id)
            ]
            written.append(text.target.decode_pieces(named))
        return text.target_moses.undo(written) if text.target_moses else written

    def _scored(self, ids, scores):
        """Returns pairs of the tokens of ids and their scores."""
        pairs = zip(ids[ids != 0].tolist(), scores[ids != 0].tolist(), strict=True)
        return tuple((self.text.target.id_to_token(token), score) for token, score in pairs)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """Scores given translations.

        Args:
            sources, targets: lists of str, one translation for each source.

        Returns:
            List of `Translation` with `targets` as texts, log probabilities as scores, not divided by a length penalty,
            and those of each token.

        Raises:
            ValueError: if `sources` and `targets` are not lists of the same length, or a target has more tokens than
                the model has learned positions.
        """
        if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
            received = ", ".join(f"{type(side).__name__} of length {len(side)}" for side in (sources, targets))
            raise ValueError(f"`sources` and `targets` must be lists of str of the same length. Received: {received}")
        ids, is_cut = self._source(sources)
        written = self.text.encode_target(targets)
        most = getattr(self.searcher.model, "max_length", None)
        longest = max(map(len, written), default=0)
        if most is not None and longest > most:
            raise ValueError(
                f"A target must have at most {most} tokens, the model's positions. Received: {longest} tokens"
            )
        scored = [Translation("", 0.0)] * len(targets)
        for indices, batch in source_batches(ids, self.buckets, self.batch_size if len(ids) > 1 else 1):
            rows = [written[index] for index in indices]
            width = -(-max(map(len, rows)) // 16) * 16  # few shapes
            width = width if most is None else min(width, most)
            result = self._score(tf.constant(batch), tf.constant(pad_ids(rows, len(batch), width)))
            for index, row, score, by_token in zip(
                indices, rows, result["scores"].numpy(), result["token_scores"].numpy(), strict=False
            ):
                by_token = self._scored(np.asarray(row), by_token[: len(row)])
                scored[index] = Translation(targets[index], float(score), is_cut[index], by_token)
        return scored

    def _search_of(self, shape, kernels, prefix, among):
        """Returns the search for a shape of batch; calling the function instead would warn of retracing."""
        prefix, among = (None if ids is None else tf.TensorSpec(ids.shape, tf.int32) for ids in (prefix, among))
        return self._search.get_concrete_function(tf.TensorSpec(shape, tf.int32), kernels, prefix, None, among)

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
