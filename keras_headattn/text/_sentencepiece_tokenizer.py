"""SentencePiece as a layer, so that a served model takes and returns text."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import sentencepiece
import tensorflow as tf

from headattn_io.files import Path
from keras_headattn._private import accept_any_input
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_index
from keras_headattn.text._added_tokens import AddedTokens, read_added_tokens
from keras_headattn.text._pair_tokenizer import check_texts, portions, rows_of
from keras_headattn.text._sentencepiece_protos import decode_proto, graph_tokenizer, join_pieces, read_proto, texts_of

STANDS_FOR_NUL = "\ufdd0"  # Unicode keeps it for use inside a program


@keras.saving.register_keras_serializable(package="keras_headattn")
class SentencePieceTokenizer(keras.layers.Layer):
    """Turns strings into ids and back, inside the TensorFlow graph.

    The whole vocabulary is part of the layer: it is saved in a model's `.keras` file and in its SavedModel,
    which then needs no other file. It does need the package tensorflow-text, which has the operations.

    Args:
        proto: a model made by `train_sentencepiece` (or another whose padding id is 0): its file's path (str
            or path), its bytes, or these in base64, as `get_config` holds them.
        sequence_length: int, length to which every batch is padded or cut; a sentence that is cut keeps its
            end symbol. Default `None`: the longest sentence of the batch.
        add_bos: bool, whether ids begin with the symbol that begins a sentence. Default False.
        add_eos: bool, whether ids end with the symbol that ends a sentence. Default True.
        lowercase: bool, whether text is lower-cased first; the model should be trained on such text. Default False.
        max_length: int, ids beyond which a sentence is cut; it keeps its end symbol. Unlike `sequence_length` it adds
            no padding. Default `None`: none is cut.
        num_sentinels: int, how many sentinels have the ids after those of the model, `<extra_id_0>` the last one: 100
            in T5, whose model has 32,000 pieces, no begin symbol, and the end symbol 1. They are no part of texts.
            Default 0.
        added_tokens: list of tokens that are kept whole where a text has them, as of `WordPieceTokenizer`; the text
            between them is split as texts of their own are. Those that the model lacks have the ids after the
            sentinels. Default: none.

    Call arguments:
        strings: string tensor (B,) or (B, 1), or a list of str.

    Returns:
        int32 tensor (B, n), padded with 0.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: if `proto` is no SentencePiece model, lacks a special piece that is needed,
            `sequence_length` or `max_length` has no room for text, or `strings` has another shape.

    Source: Kudo & Richardson 2018, "SentencePiece: a simple and language independent subword tokenizer and
    detokenizer for neural text processing"; of sentinels Raffel et al. 2020, "Exploring the limits of transfer
    learning with a unified text-to-text Transformer".

    Example:

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
                "The SentencePiece model needs a piece for each special symbol in use, padding as id 0; "
                f"train_sentencepiece makes such a model. Received: one without {', '.join(missing)}"
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
        """Ids that are not of added tokens."""
        return self._processor.vocab_size() + self.num_sentinels

    @property
    def _num_special(self):
        return int(self.add_bos) + int(self.add_eos)

    @property
    def _limit(self):
        """Pieces of a sentence that are kept: int, or `None` for all."""
        lengths = [length for length in (self.sequence_length, self.max_length) if length is not None]
        return min(lengths) - self._num_special if lengths else None

    @property
    def vocabulary_size(self) -> int:
        """int, number of pieces, sentinels and added tokens included."""
        return self._num_own + len(self._new)

    @property
    def pad_id(self) -> int:
        """int, id of padding: 0."""
        return self._processor.pad_id()

    @property
    def unk_id(self) -> int:
        """int, id of whatever is not in the vocabulary."""
        return self._processor.unk_id()

    @property
    def bos_id(self) -> int:
        """int, id that begins a sentence; -1 if the model has none."""
        return self._processor.bos_id()

    @property
    def eos_id(self) -> int:
        """int, id that ends a sentence; -1 if the model has none."""
        return self._processor.eos_id()

    def id_to_token(self, piece_id: int) -> str:
        """Looks a piece up.

        Args:
            piece_id: int, from 0 to `vocabulary_size - 1`.

        Returns:
            The piece, a str.

        Raises:
            ValueError: for an id out of range.
        """
        if not 0 <= piece_id < self.vocabulary_size:
            raise ValueError(f"Ids are 0 to {self.vocabulary_size - 1}. Received: {piece_id}")
        if piece_id >= self._num_own:
            return self._new[piece_id - self._num_own]
        if piece_id >= self._processor.vocab_size():
            return f"<extra_id_{self._num_own - 1 - piece_id}>"
        return self._processor.id_to_piece(int(piece_id))

    def sentinel_id(self, number: int) -> int:
        """The id of a sentinel.

        Args:
            number: int, from 0 to `num_sentinels - 1`, as in `<extra_id_0>`.

        Returns:
            int.

        Raises:
            ValueError: if there is no such sentinel.
        """
        if not 0 <= number < self.num_sentinels:
            raise ValueError(f"There are {self.num_sentinels} sentinels, counted from 0. Received: number={number}")
        return self._num_own - 1 - number

    def call(self, strings: tf.Tensor | Sequence[str]) -> tf.Tensor:
        strings = tf.convert_to_tensor(strings, tf.string)
        _check_shape(strings.shape)
        return self._rows(tf.reshape(strings, [-1])).to_tensor(self.pad_id, shape=[None, self.sequence_length])

    def _rows(self, strings):
        """Ids of strings (B,), special ones included: int32 `tf.RaggedTensor` (B, n)."""
        ids = self._added.pieces(strings, self._tokenize) if self._added else self._tokenize(strings)
        ids = ids[:, : self._limit]
        column = tf.ones([tf.shape(strings)[0], 1], tf.int32)
        parts = [column * self.bos_id] * self.add_bos + [ids] + [column * self.eos_id] * self.add_eos
        return tf.concat(parts, axis=1)

    def _tokenize(self, strings):
        return self._graph_tokenizer.tokenize(_lower(strings) if self.lowercase else strings)

    def detokenize(self, ids: Tensor) -> tf.Tensor:
        """Turns ids back into strings.

        Args:
            ids: integer tensor (B, n). Padding, begin symbols and sentinels are dropped, and everything from the first
                end symbol on.

        Returns:
            String tensor (B,).
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
        """Turns a list of sentences into ids outside the graph, unpadded, for data sets.

        Args:
            sentences: list of str.

        Returns:
            List of int32 arrays, the same ids that a call gives, but for words such as "abababab" that a unigram model
            can split in two ways of one score: rounding decides there, in the graph and here.
        """
        if self._added:
            return [row for some in portions(sentences) for row in rows_of(self._rows(tf.constant(check_texts(some))))]
        bos, eos = [self.bos_id] * self.add_bos, [self.eos_id] * self.add_eos
        texts = [text for some in portions(sentences) for text in check_texts(some)]
        if self.lowercase:
            texts = _lower(tf.constant(texts, tf.string)).numpy().tolist()
        return [np.array(bos + ids[: self._limit] + eos, "int32") for ids in self._processor.encode(texts)]

    def compute_output_spec(self, strings: Any) -> keras.KerasTensor:
        _check_shape(strings.shape)
        return keras.KerasTensor((strings.shape[0], self.sequence_length), "int32")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.sequence_length)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "proto": base64.b64encode(self._proto).decode("ascii"),
            "sequence_length": self.sequence_length,
            "add_bos": self.add_bos,
            "add_eos": self.add_eos,
            "lowercase": self.lowercase,
            "max_length": self.max_length,
            "num_sentinels": self.num_sentinels,
            "added_tokens": [dict(token) for token in self.added_tokens],
        }


def _lower(strings):
    """Lower-case strings. TensorFlow's operation ends a string at a NUL, so another character stands for it there."""
    strings = tf.strings.regex_replace(strings, r"\x00", STANDS_FOR_NUL)
    return tf.strings.regex_replace(tf.strings.lower(strings, encoding="utf-8"), STANDS_FOR_NUL, "\0")


def _check_shape(shape):
    if len(shape) != 1 and tuple(shape[1:]) != (1,):
        raise ValueError(f"`strings` must be of shape (B,) or (B, 1). Received: strings of shape {tuple(shape)}")
