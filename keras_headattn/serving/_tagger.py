"""Entities in texts, with their places, in Python and as a SavedModel."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._validation import check_positive
from keras_headattn.serving._buckets import LONGEST, bucket_lengths, pad_to_bucket
from keras_headattn.serving._inference import in_one_thread, projected_together
from keras_headattn.serving._likeliest import probabilities_of
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text import TextWindows, find_words, join_words
from keras_headattn.text._pair_tokenizer import PairTokenizer
from keras_headattn.text._text_windows import with_single_spaces

OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}  # L and U are those of BILOU


@dataclasses.dataclass(frozen=True)
class Entity:
    """Part of a text that a `Tagger` found.

    Args:
        kind: str, its type, such as `"PER"`; of tags without prefix, the tag.
        start, end: first character, and one after the last.
        text: str, the characters between them.
        score: float, the mean probability of its words' tags.

    >>> Entity("PER", 0, 3, "Ada", 0.75).kind
    'PER'
    """

    kind: str
    start: int
    end: int
    text: str
    score: float


class Tagger:
    """Finder of entities in texts of any length, or tagger of words.

    The tag of a word is that of its first piece. Texts with more than `max_length` ids are read in windows that overlap
    by half.

    Args:
        model: trained `TokenClassifier`, or another Keras model from ids `(B, n)` to logits `(B, n, C)`.
        tokenizer: `WordPieceTokenizer`, `BytePairTokenizer` or `SentencePiecePairTokenizer`.
        tag_names: C str: `"O"` first and IOB2's `"B-PER"`, `"I-PER"`, ..., or tags without prefix, such as `"NOUN"`.
        max_length: int, most ids of a window. Default `None`: no limit.
        batch_size: int, texts at a time. Default 64.

    Call arguments:
        texts: N str.
        progress: function of the number of texts done, called after each batch. Default `None`.

    Returns:
        List of N lists of `Entity`, in order; for tags without prefix, one for each word. Words are those of
        `text.find_words`, and the model reads single spaces between them, as in training.

    Raises:
        ValueError: if `texts` is a str, the model and `tag_names` disagree on C, or `tag_names` are not as above.

    >>> from keras_headattn.models import Bert, TokenClassifier
    >>> from keras_headattn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "in", "oslo", "bonn"])
    >>> encoder = Bert(7, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> model = TokenClassifier(encoder, 3)
    >>> loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.01), loss)
    >>> history = model.fit(tokenizer(["in Oslo", "in Bonn"]), np.array([[0, 0, 1, 0]] * 2), epochs=20, verbose=0)
    >>> tag = Tagger(model, tokenizer, ["O", "B-LOC", "I-LOC"])
    >>> [(entity.kind, entity.text, entity.start) for entity in tag(["In Bonn!"])[0]]
    [('LOC', 'Bonn', 3)]
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: PairTokenizer,
        tag_names: Sequence[str],
        max_length: int | None = None,
        batch_size: int = 64,
    ):
        self.model = model
        self.tag_names = list(tag_names)
        self.batch_size = check_positive("batch_size", batch_size)
        self.windows = TextWindows(tokenizer, max_length)
        self._graph = _Graph(self.windows, probabilities_of(model, self.tag_names), self.tag_names)
        strings, words = tf.TensorSpec([None], tf.string), tf.RaggedTensorSpec([None, None], tf.int32)
        options: dict[str, Any] = dict(autograph=False)
        self._find = tf.function(self._graph.entities, input_signature=[strings], **options)
        self._tag = tf.function(self._graph.tags, input_signature=[strings, words, words], **options)

    def __call__(self, texts: Sequence[str], progress: Callable[[int], Any] | None = None) -> list[list[Entity]]:
        if isinstance(texts, str):
            raise ValueError(f"`texts` must be a list of str. Received: the str {texts[:60]!r}")
        result: list[list[Entity]] = [[] for _ in texts]
        for members in self._batches([len(text) for text in texts], progress):
            entities = self._find(tf.constant([texts[member] for member in members]))
            rows = zip(*(entities[name].to_list() for name in ("kinds", "starts", "ends", "scores")), strict=True)
            for member, row in zip(members, rows, strict=True):
                text = texts[member]
                result[member] = [
                    Entity(kind.decode("utf-8"), start, end, text[start:end], score)
                    for kind, start, end, score in zip(*row, strict=True)
                ]
        return result

    def tag_words(
        self, sentences: Sequence[Sequence[str]], progress: Callable[[int], Any] | None = None
    ) -> list[list[str]]:
        """Returns a tag for each word of sentences that are split already.

        Args:
            sentences: N lists of str. The model reads them joined by spaces.
            progress: as in a call.
        """
        result: list[list[str]] = [[] for _ in sentences]
        for members in self._batches([sum(map(len, words)) for words in sentences], progress):
            tags = self._tag(*join_words([sentences[member] for member in members]))[0].to_list()
            for member, row in zip(members, tags, strict=True):
                result[member] = [self.tag_names[tag] for tag in row]
        return result

    def _batches(self, sizes, progress):
        order = np.argsort(sizes, kind="stable")
        for begin in range(0, len(order), self.batch_size):
            members = order[begin : begin + self.batch_size]
            yield members
            if progress:
                progress(begin + len(members))


class _Graph(tf.Module):
    """Operations of a tagger in the graph."""

    def __init__(self, windows, probabilities, names):
        super().__init__()
        is_span = marks_entities(names)
        if is_span and names[0] != OUTSIDE:
            raise ValueError(f"`tag_names` must begin with {OUTSIDE}. Received: {names}")
        self.windows = windows
        self.lengths = bucket_lengths(windows.max_length or LONGEST)
        self.probabilities = probabilities
        kinds = [name[2:] if is_span and name != OUTSIDE else "" if is_span else name for name in names]
        known = sorted(set(kinds))
        self.kinds = tf.constant(known)
        self.kind_of = tf.constant([known.index(kind) for kind in kinds])
        self.is_inside = tf.constant([is_span and name.startswith("I-") for name in names])
        self.is_found = tf.constant([not is_span or name != OUTSIDE for name in names])

    def tags(self, texts, starts, ends):
        """Returns the tags of words, int32 ragged `(B, k)`, and their probabilities; 0 for words without pieces."""
        rows = self.windows(texts)
        width = tf.shape(rows.token_ids)[1]
        ids = pad_to_bucket(rows.token_ids, self.lengths, self.windows.tokenizer.pad_id)
        scores, tags = tf.math.top_k(self.probabilities(ids)[:, :width], 1)
        places = rows.first_pieces(starts, ends).flat_values
        tags, scores = (tf.concat([tf.reshape(x, [-1]), [0]], axis=0) for x in (tags, scores))  # 0 without pieces
        places = tf.where(places < 0, tf.size(tags, tf.int64) - 1, places)
        return starts.with_flat_values(tf.gather(tags, places)), starts.with_flat_values(tf.gather(scores, places))

    def entities(self, texts):
        """Returns `kinds`, `starts`, `ends` and `scores` of the entities of texts, ragged `(B, e)`."""
        starts, ends = find_words(texts)
        read = with_single_spaces(texts)  # as in training
        tags, scores = self.tags(read, *find_words(read))
        tag, text = tags.flat_values, tags.value_rowids()
        kind, is_found = tf.gather(self.kind_of, tag), tf.gather(self.is_found, tag)
        no_text = tf.constant([-1], tf.int64)
        is_same = tf.concat([no_text, text], axis=0)[:-1] == text
        is_same &= tf.concat([[-1], kind], axis=0)[:-1] == kind
        begins = is_found & ~(is_same & tf.gather(self.is_inside, tag))
        # Words that are in no entity have a number of their own, which is dropped.
        entity = tf.where(is_found, tf.cumsum(tf.cast(begins, tf.int32)) - 1, -1)
        count = tf.reduce_sum(tf.cast(begins, tf.int32))
        first = tf.ragged.boolean_mask(starts, tags.with_flat_values(begins))
        last = tf.math.unsorted_segment_max(ends.flat_values, entity, count)
        mean = tf.math.unsorted_segment_mean(scores.flat_values, entity, count)
        kinds = tf.gather(self.kinds, tf.boolean_mask(kind, begins))
        return {
            "kinds": first.with_flat_values(kinds),
            "starts": first,
            "ends": first.with_flat_values(last),
            "scores": first.with_flat_values(mean),
        }


def export_tagger(
    model: keras.Model,
    tokenizer: PairTokenizer,
    tag_names: Sequence[str],
    folder: Path,
    max_length: int | None = None,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    cpu_only: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that finds entities in texts as `Tagger` does, and returns the `Path` of the new version.

    It needs TensorFlow only, and tensorflow-text for a `SentencePiecePairTokenizer` or a `WordPieceTokenizer`. Its
    signature `serving_default` takes strings `text` `(B,)`. It returns, for as many entities `e` as the text with most
    has: strings `entities` and `kinds` `(B, e)`, `""` for none; int32 `starts` and `ends` `(B, e)`, -1 for none, in
    characters (Unicode code points) of the text; and float32 `scores` `(B, e)`.

    Args:
        model, tokenizer, tag_names, max_length: as in `Tagger`.
        folder, run, warmup_batch_sizes, cpu_only: as in `export_classifier`.

    Raises:
        ValueError: if the model and `tag_names` disagree, or `run` is another.
        OSError: if it cannot be written.

    ```python
    path = export_tagger(model, tokenizer, ["O", "B-PER", "I-PER"], "saved_models/names", max_length=128)
    find = tf.saved_model.load(path).signatures["serving_default"]
    find(text=tf.constant(["Ada slept."]))["entities"]
    ```
    """
    probabilities = probabilities_of(model, list(tag_names))
    windows = TextWindows(tokenizer, max_length)
    graph = _Graph(windows, in_one_thread(probabilities) if cpu_only else probabilities, list(tag_names))

    def find(texts):
        entities = graph.entities(texts)
        starts, ends = entities["starts"], entities["ends"]
        rows = starts.value_rowids()
        parts = tf.strings.substr(
            tf.gather(texts, rows), starts.flat_values, ends.flat_values - starts.flat_values, unit="UTF8_CHAR"
        )
        return {
            "entities": starts.with_flat_values(parts).to_tensor(""),
            "kinds": entities["kinds"].to_tensor(""),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
            "scores": entities["scores"].to_tensor(0.0),
        }

    text = tf.TensorSpec([None], tf.string, name="text")
    requests = batches("text", sample_texts(tokenizer, graph.lengths), warmup_batch_sizes)
    signatures = {"serving_default": (find, [text])}
    with projected_together(model):
        return save_signatures(signatures, folder, [tokenizer, graph], run, {"serving_default": requests})


def marks_entities(tags: Iterable[str]) -> bool:
    """Returns True if tags are `O` or have a prefix such as `B-`: others, parts of speech say, mark no entities.

    >>> marks_entities(["O", "B-PER"]), marks_entities(["NN", "VB"])
    (True, False)
    """
    return all(tag == OUTSIDE or (tag[:1] in PREFIXES and tag[1:2] == "-") for tag in tags)
