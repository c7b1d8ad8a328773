"""BERT of all-MiniLM-L6's size with a classifier's head, random weights and a made-up vocabulary."""

import itertools
import pathlib

import numpy as np

LAYERS, WIDTH, FEED_FORWARD, HEADS, VOCABULARY = 6, 384, 1536, 12, 30_522
CLASSES = ["no", "yes"]
TITLE = (
    f"BERT of {LAYERS} layers, {WIDTH} wide, feed-forward {FEED_FORWARD:,}, {HEADS} heads, a vocabulary of "
    f"{VOCABULARY:,}, and a head of {len(CLASSES)} classes, float32"
)
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
EXPECTED = "expected.npy"


def tokens():
    """Returns the vocabulary: special tokens, and words of three syllables, each a piece."""
    syllables = map("".join, itertools.product("bdfgklmnprstvz", "aeiou"))
    words = map("".join, itertools.product(syllables, repeat=3))
    return [*SPECIALS, *itertools.islice(words, VOCABULARY - len(SPECIALS))]


def make_rows(num_rows, length):
    """Returns lists of ids: the first has `length`, the last half of it, with begin and end."""
    rng = np.random.default_rng(length)
    first, last = SPECIALS.index("[CLS]"), SPECIALS.index("[SEP]")
    lengths = np.linspace(length, length // 2, num_rows).astype(int)
    return [[first, *rng.integers(len(SPECIALS), VOCABULARY, size - 2).tolist(), last] for size in lengths]


def make_texts(num_rows, length):
    """Returns the texts of these rows."""
    words = tokens()
    return [" ".join(words[token] for token in row[1:-1]) for row in make_rows(num_rows, length)]


def padded(rows):
    """Returns ids `(B, n)`, and 1 without padding."""
    longest = max(map(len, rows))
    ids = np.array([row + [0] * (longest - len(row)) for row in rows], "int32")
    return ids, (ids > 0).astype("int32")


def make_folder(folder):
    """Writes the model in Hugging Face's format, with `vocab.txt`."""
    import keras

    from keras_headattn.interop import to_hugging_face
    from keras_headattn.models import Bert, EncoderClassifier

    keras.utils.set_random_seed(0)
    encoder = Bert(VOCABULARY, WIDTH, FEED_FORWARD, LAYERS, HEADS)
    model = EncoderClassifier(encoder, len(CLASSES))
    model.build()
    to_hugging_face(model, folder)
    pathlib.Path(folder, "vocab.txt").write_text("\n".join(tokens()) + "\n", encoding="utf-8")


def export(folder, batches, cpu_only=False):
    """Writes a SavedModel and each batch's probabilities to `folder`, and returns the SavedModel's path.

    Args:
        folder: that of `make_folder`.
        batches: dictionary from number of rows and length to texts.
        cpu_only: as in `export_classifier`.
    """
    import keras

    from keras_headattn.interop import from_pretrained, tokenizer_of
    from keras_headattn.serving import export_classifier

    model, tokenizer = from_pretrained(folder, head="classifier"), tokenizer_of(folder)
    expected = [keras.ops.softmax(model(tokenizer(texts))) for texts in batches.values()]
    np.save(pathlib.Path(folder, EXPECTED), np.concatenate(expected))
    arguments = dict(max_length=128, warmup_batch_sizes=(), cpu_only=cpu_only)
    return str(export_classifier(model, tokenizer, CLASSES, f"{folder}/export", **arguments))


def check(folder, probabilities):
    """Checks that a library returns the probabilities of `export`.

    Args:
        folder: that of `make_folder`.
        probabilities: list of float32 `(B, C)`, one for each batch.
    """
    expected = np.load(pathlib.Path(folder, EXPECTED))
    np.testing.assert_allclose(np.concatenate(probabilities), expected, atol=1e-5)
    assert np.ptp(expected[:, 0]) > 1e-3, "Rows must differ, or nothing is checked."
