import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import sentencepiece
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._private import accept_any_input
from keras_headattn._tensorflow import lower
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_index
from keras_headattn.text._added_tokens import AddedTokens, read_added_tokens
from keras_headattn.text._pair_tokenizer import as_strings, check_shape, check_texts, portions, rows_of
from keras_headattn.text._sentencepiece_protos import decode_proto, graph_tokenizer, join_pieces, read_proto, texts_of

STANDS_FOR_NUL = "\ufdd0"  # Unicode keeps it for use inside a program


@keras.saving.register_keras_serializable(package="keras_headattn")
class SentencePieceTokenizer(keras.layers.Layer):
    """SentencePiece tokenizer, inside the TensorFlow graph.

    The vocabulary is saved with the model; a SavedModel needs the package tensorflow-text.

    Source: Kudo & Richardson 2018, "SentencePiece: a simple and language independent subword tokenizer and detokenizer
    for neural text processing"; for sentinels Raffel et al. 2020, "Exploring the limits of transfer learning with a
    unified text-to-text Transformer".

    Args:
        proto: model of `train_sentencepiece`, or another with padding id 0: path, bytes, or base64 of the bytes.
        sequence_length: length to which every batch is padded or truncated. Default `None`: the longest sentence.
        add_bos: True to begin ids with the begin symbol.
        add_eos: True to end ids with the end symbol, also of truncated sentences.
        lowercase: True to lower-case text; train the model on such text.
        max_length: most ids of a sentence; longer ones are truncated, without padding. Default `None`: no limit.
        num_sentinels: number of sentinels, whose ids follow the model's, `<extra_id_0>` last: 100 in T5, whose model
            has 32,000 pieces, no begin symbol, and end symbol 1. They are not decoded.
        added_tokens: see `WordPieceTokenizer`. New ones get the ids after the sentinels; text between added tokens is
            split like a text of its own.

    Call arguments:
        strings: string tensor (B,) or (B, 1), or a list of str.

    Returns:
        int32 tensor (B, n), padded with 0.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: for an invalid model, a missing special piece, too small a `sequence_length` or `max_length`, or
            `strings` of another shape.

    ```python
    tokenizer = SentencePieceTokenizer("runs/vocabulary.model")
    ids = tokenizer(["two cats", "a dog sleeps"])  # (2, n)
    tokenizer.detokenize(ids)                      # ["two cats", "a dog sleeps"]
    t5 = SentencePieceTokenizer("t5-base/spiece.model", num_sentinels=100, max_length=512)
    t5.sentinel_id(0)                              # 32099
    ```
    """

    joins_pairs = False

    def __init__(
        self,
        proto: Path | bytes,
        sequence_length: int | None = None,
        add_bos: bool = False,
        add_eos: bool = True,
        lowercase: bool = False,
        max_length: int | None = None,
        num_sentinels: int = 0,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._proto = read_proto(proto)
        self.sequence_length = sequence_length
        self.add_bos = add_bos
        self.add_eos = add_eos
        self.lowercase = lowercase
        self.max_length = max_length
        self.num_sentinels = check_index("num_sentinels", num_sentinels)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._proto)
        self._check()
        self._graph_tokenizer = graph_tokenizer(self._proto)
        self.added_tokens = tuple(read_added_tokens(added_tokens))
        self._added = None
        contents = [token["content"] for token in self.added_tokens]
        ids = {token: self._processor.piece_to_id(token) for token in contents}
        self._new = [token for token in contents if ids[token] == self._processor.unk_id()]
        if self.added_tokens:
            ids |= {token: self._num_own + i for i, token in enumerate(self._new)}
            self._added = AddedTokens(self.added_tokens, ids)
            self._texts = tf.constant(texts_of(self._processor, self.num_sentinels, self._new, ids))
        accept_any_input(self)  # strings are no floats
        self.supports_jit = False  # XLA has no strings

    def _check(self):
        needed = {"padding": 0 if self.pad_id == 0 else -1, "unknown": self.unk_id}
        needed |= {"begin of sentence": self.bos_id} if self.add_bos else {}
        needed |= {"end of sentence": self.eos_id} if self.add_eos else {}
        missing = [name for name, piece_id in needed.items() if piece_id < 0]
        if missing:
            raise ValueError(
                "`proto` must have a piece for each special symbol in use, padding as id 0; "
                f"`train_sentencepiece` makes such a model. Received: one without {', '.join(missing)}"
            )
        for name, length in (("sequence_length", self.sequence_length), ("max_length", self.max_length)):
            if length is not None and length <= self._num_special:
                raise ValueError(
                    f"`{name}` must leave room for text beside {self._num_special} special ids. "
                    f"Received: {name}={length}"
                )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return super().from_config({**config, "proto": decode_proto(config["proto"])})

    @property
    def _num_own(self):
        """Number of ids without added tokens."""
        return self._processor.vocab_size() + self.num_sentinels

    @property
    def _num_special(self):
        return int(self.add_bos) + int(self.add_eos)

    @property
    def _limit(self):
        """Number of pieces of a sentence to keep, or `None` for all."""
        lengths = [length for length in (self.sequence_length, self.max_length) if length is not None]
        return min(lengths) - self._num_special if lengths else None

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, sentinels and added tokens included."""
        return self._num_own + len(self._new)

    @property
    def pad_id(self) -> int:
        """Id of padding: 0."""
        return self._processor.pad_id()

    @property
    def unk_id(self) -> int:
        """Id of unknown text."""
        return self._processor.unk_id()

    @property
    def bos_id(self) -> int:
        """Id that begins a sentence; -1 if the model has none."""
        return self._processor.bos_id()

    @property
    def eos_id(self) -> int:
        """Id that ends a sentence; -1 if the model has none."""
        return self._processor.eos_id()

    def id_to_token(self, piece_id: int) -> str:
        """Returns the piece of an id.

        Args:
            piece_id: from 0 to `vocabulary_size - 1`.
        """
        if not 0 <= piece_id < self.vocabulary_size:
            raise ValueError(f"`piece_id` must be from 0 to {self.vocabulary_size - 1}. Received: piece_id={piece_id}")
        if piece_id >= self._num_own:
            return self._new[piece_id - self._num_own]
        if piece_id >= self._processor.vocab_size():
            return f"<extra_id_{self._num_own - 1 - piece_id}>"
        return self._processor.id_to_piece(int(piece_id))

    def sentinel_id(self, index: int) -> int:
        """Returns the id of a sentinel.

        Args:
            index: from 0 to `num_sentinels - 1`, as in `<extra_id_0>`.
        """
        if not 0 <= index < self.num_sentinels:
            raise ValueError(
                f"`index` must be that of one of {self.num_sentinels} sentinels, from 0. Received: index={index}"
            )
        return self._num_own - 1 - index

    def call(self, strings: tf.Tensor | Sequence[str]) -> tf.Tensor:
        return self._rows(as_strings("strings", strings)).to_tensor(self.pad_id, shape=[None, self.sequence_length])

    def _rows(self, strings):
        """Returns the ids of strings (B,), with special ones, as int32 `tf.RaggedTensor` (B, n)."""
        ids = self._added.pieces(strings, self._tokenize) if self._added else self._tokenize(strings)
        ids = ids[:, : self._limit]
        column = tf.ones([tf.shape(strings)[0], 1], tf.int32)
        parts = [column * self.bos_id] * self.add_bos + [ids] + [column * self.eos_id] * self.add_eos
        return tf.concat(parts, axis=1)

    def _tokenize(self, strings):
        return self._graph_tokenizer.tokenize(_lower(strings) if self.lowercase else strings)

    def detokenize(self, ids: Tensor) -> tf.Tensor:
        """Decodes ids to strings (B,).

        Args:
            ids: integers (B, n). Padding, begin symbols, sentinels, and everything from the first end symbol on are
                dropped.
        """
        ids = tf.cast(ids, tf.int32)
        ended = tf.cumsum(tf.cast(ids == self.eos_id, tf.int32), axis=1) > 0
        text = ~ended & (ids >= 0) & (ids != self.pad_id) & (ids != self.bos_id)
        if self._added:
            return join_pieces(tf.ragged.boolean_mask(ids, text & (ids < self.vocabulary_size)), self._texts)
        return self._graph_tokenizer.detokenize(
            tf.ragged.boolean_mask(ids, text & (ids < self._processor.vocab_size()))
        )

    def encode(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Encodes sentences outside the graph as int32 arrays, unpadded, for data sets.

        The ids are those of a call, except for words that a unigram model can split in two ways of equal score.

        Args:
            sentences: list of str.
        """
        if self._added:
            return [row for some in portions(sentences) for row in rows_of(self._rows(tf.constant(check_texts(some))))]
        bos, eos = [self.bos_id] * self.add_bos, [self.eos_id] * self.add_eos
        texts = [text for some in portions(sentences) for text in check_texts(some)]
        if self.lowercase:
            texts = _lower(tf.constant(texts, tf.string)).numpy().tolist()
        return [np.array(bos + ids[: self._limit] + eos, "int32") for ids in self._processor.encode(texts)]

    def encode_pieces(self, sentence: str) -> list[str]:
        """Returns the pieces of a sentence, one for each id of `encode`; unknown ones are the text that they stand for.

        Args:
            sentence: str.
        """
        (ids,) = self.encode([sentence])
        pieces = [self.id_to_token(token) for token in ids]
        if not self._added:
            text = _lower(tf.constant(sentence)).numpy().decode("utf-8") if self.lowercase else sentence
            end = len(pieces) - self.add_eos
            pieces[int(self.add_bos) : end] = self._processor.encode(text, out_type=str)[: end - self.add_bos]
        return pieces

    def decode_pieces(self, pieces: Sequence[str]) -> str:
        """Joins pieces as text. Those outside the vocabulary stay as they are.

        Args:
            pieces: list of str, without special ones.
        """
        return self._processor.decode(list(pieces))

    def compute_output_spec(self, strings: Any) -> keras.KerasTensor:
        check_shape("strings", strings.shape)
        return keras.KerasTensor((strings.shape[0], self.sequence_length), "int32")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.sequence_length)

    def get_config(self) -> dict[str, Any]:
        names = ("sequence_length", "add_bos", "add_eos", "lowercase", "max_length", "num_sentinels")
        return {
            **super().get_config(),
            "proto": base64.b64encode(self._proto).decode("ascii"),
            **{name: getattr(self, name) for name in names},
            "added_tokens": [dict(token) for token in self.added_tokens],
        }


def _lower(strings):
    """Lower-cases strings. TensorFlow's operation ends a string at NUL, so another character stands in for it."""
    strings = tf.strings.regex_replace(strings, r"\x00", STANDS_FOR_NUL)
    return tf.strings.regex_replace(lower(strings), STANDS_FOR_NUL, "\0")
