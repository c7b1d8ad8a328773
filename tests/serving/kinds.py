"""A small SavedModel of each kind, with requests that a server may be sent."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.data import central_crop
from keras_headattn.decoding import Searcher
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import (
    Bert,
    CausalLM,
    EncoderClassifier,
    GraphWriter,
    ModernBert,
    SpanAnswerer,
    TokenClassifier,
    Transformer,
    ViT,
)
from keras_headattn.serving import (
    export_classifier,
    export_generator,
    export_id_translator,
    export_image_classifier,
    export_pixel_classifier,
    export_question_answerer,
    export_regressor,
    export_tagger,
    export_translator,
    write_warmup,
)
from keras_headattn.serving._warmup import read_warmup
from keras_headattn.text import (
    BytePairTokenizer,
    ByteTokenizer,
    ModernBertTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
    learn_wordpieces,
    learn_words,
    train_sentencepiece,
)
from recipes.graphs.corpus import graph_tensors
from recipes.graphs.exports import export_graph_to_text
from recipes.graphs.files import graph_from_json
from recipes.graphs.graph_to_text import GraphToText
from recipes.graphs.vocabulary import GraphVocabulary

ENGLISH = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
GERMAN = ["die Katze saß auf der Matte", "ein Hund lief der Katze nach", "keine Katze saß still"]
CLASSES = ["Affe", "Bär", "Chamäleon"]
TAGS = ["O", "B-Tier", "I-Tier"]
OPTIONS = {
    "seed": np.int32(3), "temperature": np.float32(0.7), "top_k": np.int32(20), "top_p": np.float32(0.9),
    "max_tokens": np.int32(5), "min_tokens": np.int32(2), "stop": ["e", "\\E"],
}  # fmt: skip
GRAPHS = [
    '{"entities": ["Zo\\u00eb Lee", "Oslo"], "types": ["person", "town"], "triples": [[0, "home", "Oslo"]]}',
    '{"triples": [["Anna", "home", "New York"], ["Anna", "born in", "Oslo"]], "title": "Towns"}',
]
TEXT = {  # those that need tensorflow-text, with the names of its libraries
    "translator": ("sentencepiece_tokenizer",),
    "classifier_pieces": ("sentencepiece_tokenizer",),
    "pairs_word_pieces": ("normalize_ops", "fast_bert_normalizer", "fast_wordpiece_tokenizer"),
    "modernbert": ("normalize_ops",),
    "question_answerer": ("normalize_ops", "fast_bert_normalizer", "fast_wordpiece_tokenizer"),
    "tagger_word_pieces": ("normalize_ops", "fast_bert_normalizer", "fast_wordpiece_tokenizer"),
}


@dataclasses.dataclass
class Export:
    """A SavedModel.

    Args:
        path: of the version.
        own: requests that were exported with it, as `read_warmup` returns them.
        requests: those of its warm-up file now: its own, and some that differ within a batch.
    """

    path: pathlib.Path
    own: list
    requests: list

    @functools.cached_property
    def model(self):
        return tf.saved_model.load(self.path)


class Exports(Mapping):
    """A SavedModel of each kind, written when it is first asked for: dictionary of the kind to an `Export`.

    Args:
        folder: path.
    """

    def __init__(self, folder):
        keras.utils.set_random_seed(3)
        self._write, self._inputs = _writers(pathlib.Path(folder)), _inputs()
        self._exports = {}

    def __getitem__(self, kind):
        if kind not in self._exports:
            self._exports[kind] = _with_requests(self._write[kind](), self._inputs[kind])
        return self._exports[kind]

    def __iter__(self):
        return iter(self._write)

    def __len__(self):
        return len(self._write)


def _writers(folder):
    """Returns a function of each kind that writes it to the folder, and returns its path."""
    pieces = [
        SentencePieceTokenizer(train_sentencepiece(texts, folder / f"{name}.model", 32))
        for name, texts in (("source", ENGLISH), ("target", GERMAN))
    ]
    words = WordTokenizer(learn_words(ENGLISH))
    word_pieces = WordPieceTokenizer(learn_wordpieces(ENGLISH, 60))
    byte_pairs = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *"acdeghnorstuw", "Ġ", "at", "Ġt"], ["a t", "Ġ t"])
    modern = ModernBertTokenizer(
        ["[UNK]", "[PAD]", "[CLS]", "[SEP]", *"acdeghnorstuw", "Ġ", "at", "Ġt"], ["a t", "Ġ t"]
    )
    searcher, image_model = _searcher(), _image_model()
    crop = functools.partial(central_crop, size=8, resized=10)
    return {
        "translator": lambda: export_translator(searcher, *pieces, folder / "translator", max_source_length=16),
        "ids_translator": lambda: export_id_translator(searcher, folder / "ids_translator", cpu_only=True),
        "classifier_words": lambda: export_classifier(
            _text_model(words, 3, pairs=True), words, CLASSES, folder / "words", 20, True
        ),
        "classifier_pieces": lambda: export_classifier(
            _text_model(pieces[0], 3), pieces[0], CLASSES, folder / "pieces", cpu_only=True
        ),
        "pairs_word_pieces": lambda: export_classifier(
            _segments_model(word_pieces), word_pieces, CLASSES, folder / "word_pieces", 20, True, cpu_only=True
        ),
        "pairs_bytes": lambda: export_classifier(
            _text_model(byte_pairs, 3), byte_pairs, CLASSES, folder / "bytes", 20, True, cpu_only=True
        ),
        "tagger_word_pieces": lambda: export_tagger(_tagger(word_pieces), word_pieces, TAGS, folder / "tagger", 20),
        "tagger_bytes": lambda: export_tagger(
            _tagger(byte_pairs), byte_pairs, TAGS, folder / "tagger_bytes", 8, cpu_only=True
        ),
        "regressor": lambda: export_regressor(_text_model(words, 1), words, folder / "regressor", cpu_only=True),
        "modernbert": lambda: export_classifier(_modernbert(modern), modern, CLASSES, folder / "modernbert", 20),
        "image_classifier": lambda: export_image_classifier(image_model, crop, CLASSES, folder / "images", top=2),
        "pixel_classifier": lambda: export_pixel_classifier(image_model, CLASSES, folder / "pixels"),
        "vit_classifier": lambda: export_pixel_classifier(_vit(), CLASSES, folder / "vit"),
        "graph_to_text": lambda: export_graph_to_text(_graph_to_text(), folder / "graphs"),
        "question_answerer": lambda: export_question_answerer(
            _span_answerer(word_pieces), word_pieces, folder / "answers", 16, 4, 3, threshold=0.0, cpu_only=True
        ),
        "generator": lambda: export_generator(
            _language_model(), ByteTokenizer(), folder / "generator", attention=True, max_length=6
        ),
    }


def _inputs():
    """Returns requests of each kind, by the name of a signature."""
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), "uint8")
    files = [tf.io.encode_png(images[0]).numpy(), b"no picture", tf.io.encode_jpeg(images[1]).numpy()]
    texts = ["the cat sat", "a dog ran after no mat", ""]
    ids = np.array([[5, 9, 12, 3], [7, 3, 0, 0]], "int32")
    pixels = {"serving_default": {"images": images}, "uint8": {"images": images}}
    return {
        "translator": {name: {"text": texts} for name in ("serving_default", "n_best")},
        "ids_translator": {"serving_default": {"ids": ids}},
        "classifier_words": {"serving_default": {"text": texts, "second_text": texts[::-1]}},
        "classifier_pieces": {"serving_default": {"text": texts}},
        "pairs_word_pieces": {"serving_default": {"text": texts, "second_text": texts[::-1]}},
        "pairs_bytes": {"serving_default": {"text": texts, "second_text": texts[::-1]}},
        "tagger_word_pieces": {"serving_default": {"text": texts}},
        "tagger_bytes": {"serving_default": {"text": texts}},
        "regressor": {"serving_default": {"text": texts}},
        "modernbert": {"serving_default": {"text": texts}},
        "image_classifier": {"serving_default": {"images": files}},
        "pixel_classifier": pixels,
        "vit_classifier": pixels,
        "graph_to_text": {name: graph_arrays(GRAPHS) for name in ("serving_default", "n_best")},
        "question_answerer": {"serving_default": {"question": ["who ran?", "", "cat"], "context": [*ENGLISH[:2], ""]}},
        "generator": {
            **{name: {"prompts": texts} for name in ("serving_default", "attention")},
            "generate": {"prompts": texts, **OPTIONS},
            "score": {"texts": texts},
        },
    }


def graph_arrays(lines):
    """Inputs of a SavedModel of graphs: arrays for lines of JSON."""
    tensors = graph_tensors([graph_from_json(line) for line in lines])
    kinds = {int: "int32", str: object}
    return {name: np.array(rows, kinds[type(np.array(rows).flat[0].item())]) for name, rows in tensors.items()}


def _with_requests(path, more):
    own = read_warmup(path)
    grouped = {}
    for name, inputs in [*own, *more.items()]:
        grouped.setdefault(name, []).append(inputs)
    write_warmup(path, grouped)
    return Export(path, own, read_warmup(path))


def _searcher():
    shape = dict(num_layers=1, hidden_dim=16, intermediate_dim=32)
    model = Transformer(32, 32, attention=MultiHeadAttention(2, 8), **shape)
    model.build()
    random = np.random.default_rng(3)
    for weight in model.trainable_weights:  # large ones, so that translations differ
        if weight.name not in ("gamma", "beta"):
            weight.assign(random.normal(size=weight.shape) * 4 / weight.shape[-1] ** 0.5)
    return Searcher(model, 3, max_length=8)


def _graph_to_text():
    vocabulary = GraphVocabulary(["lives", "in"], ["person", "town"], ["lee", "oslo"], ["towns"], ["home"], max_words=2)
    sizes = vocabulary.vocabulary_size, vocabulary.entity_vocabulary_size, 1, vocabulary.title_vocabulary_size
    shape = dict(num_layers=1, hidden_dim=16, num_encoder_layers=1, forbidden_ids=vocabulary.forbidden_ids, seed=1)
    return GraphToText(GraphWriter(*sizes, **shape), vocabulary, beam_size=2, max_length=6)


def _text_model(tokenizer, outputs, pairs=False):
    names = ("text", "second_text") if pairs else ("text",)
    inputs = [keras.Input((None,), dtype="int32", name=name) for name in names]
    embed = keras.layers.Embedding(tokenizer.vocabulary_size, 6, embeddings_initializer="random_normal")
    x = keras.layers.Concatenate()([keras.layers.GlobalMaxPooling1D()(embed(ids)) for ids in inputs] * 2)
    return keras.Model(tuple(inputs) if pairs else inputs[0], keras.layers.Dense(outputs)(x))


def _segments_model(tokenizer):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "segment_ids")}
    tokens = keras.layers.Embedding(tokenizer.vocabulary_size, 6, embeddings_initializer="random_normal")
    segments = keras.layers.Embedding(2, 6, embeddings_initializer="random_normal")
    x = keras.layers.Add()([tokens(inputs["token_ids"]), segments(inputs["segment_ids"])])
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalMaxPooling1D()(x)))


def _modernbert(tokenizer):
    own = dict(vocabulary_size=tokenizer.vocabulary_size, pad_id=tokenizer.pad_id, sliding_window=3)
    encoder = ModernBert.from_size("modernbert_base", num_layers=2, hidden_dim=24, intermediate_dim=16, **own)
    return EncoderClassifier(encoder, 3, "modernbert")


def _span_answerer(tokenizer):
    encoder = Bert(tokenizer.vocabulary_size, 8, 16, num_layers=1, num_heads=2, max_length=20, pooler=False)
    model = SpanAnswerer(encoder)
    model.build()
    return model


def _language_model():
    return CausalLM(257, num_layers=2, hidden_dim=16, num_heads=2, attention="talking_heads", seed=1)


def _tagger(tokenizer):
    shape = dict(hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=2, initializer_range=0.5)
    return TokenClassifier(Bert(tokenizer.vocabulary_size, **shape, pad_id=tokenizer.pad_id, pooler=False), len(TAGS))


def _image_model():
    images = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu")(keras.layers.Rescaling(1 / 255)(images))
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(images, keras.layers.Dense(3, kernel_initializer="random_normal")(keras.layers.Flatten()(x)))


def _vit():
    images = keras.Input((8, 8, 3))
    vit = ViT((8, 8, 3), 4, 8, 8, num_layers=1, num_heads=2, classes=3, classifier_activation=None)
    return keras.Model(images, vit(keras.layers.Rescaling(1 / 255)(images)))
