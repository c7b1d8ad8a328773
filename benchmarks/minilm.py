"""A BERT as large as all-MiniLM-L6 under the head of a classifier: random weights, a vocabulary of made-up words."""

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
    """The vocabulary: special tokens, and words of three syllables, so that a word is one piece."""
    syllables = map("".join, itertools.product("bdfgklmnprstvz", "aeiou"))
    words = map("".join, itertools.product(syllables, repeat=3))
    return [*SPECIALS, *itertools.islice(words, VOCABULARY - len(SPECIALS))]


def make_rows(number, length):
    """Lists of ids: the first has `length`, the last half of it, with those at the beginning and the end."""
    rng = np.random.default_rng(length)
    first, last = SPECIALS.index("[CLS]"), SPECIALS.index("[SEP]")
    lengths = np.linspace(length, length // 2, number).astype(int)
    return [[first, *rng.integers(len(SPECIALS), VOCABULARY, size - 2).tolist(), last] for size in lengths]


def make_texts(number, length):
    """The texts of these rows."""
    words = tokens()
    return [" ".join(words[token] for token in row[1:-1]) for row in make_rows(number, length)]


def padded(rows):
    """Ids `(B, n)`, and 1 where there is no padding."""
    longest = max(map(len, rows))
    ids = np.array([row + [0] * (longest - len(row)) for row in rows], "int32")
    return ids, (ids > 0).astype("int32")


def make_folder(folder):
    """Writes the model as Hugging Face has it, with `vocab.txt`."""
    import keras

    from keras_headattn.interop import to_hugging_face
    from keras_headattn.models import Bert, EncoderClassifier

    keras.utils.set_random_seed(0)
    encoder = Bert(VOCABULARY, WIDTH, FEED_FORWARD, LAYERS, HEADS)
    model = EncoderClassifier(encoder, len(CLASSES))
    model.build()
    to_hugging_face(model, folder)
    pathlib.Path(folder, "vocab.txt").write_text("\n".join(tokens()) + "\n", encoding="utf-8")


def export(folder, batches):
    """Writes the SavedModel of texts to `folder/export/1`, and the probabilities of each batch to a file.

    Args:
        folder: str, of `make_folder`.
        batches: dictionary of a number of rows and a length to texts.

    Returns:
        str, the path of the SavedModel.
    """
    import keras

    from keras_headattn.interop import from_pretrained, tokenizer_of
    from keras_headattn.serving import export_classifier

    model, tokenizer = from_pretrained(folder, head="classifier"), tokenizer_of(folder)
    expected = [keras.ops.softmax(model(tokenizer(texts))) for texts in batches.values()]
    np.save(pathlib.Path(folder, EXPECTED), np.concatenate(expected))
    return str(export_classifier(model, tokenizer, CLASSES, f"{folder}/export", max_length=128, warmup_batch_sizes=()))


def check(folder, probabilities):
    """Checks that a library gives the probabilities that `export` has written.

    Args:
        folder: str.
        probabilities: list of float32 `(B, C)`, of each batch.
    """
    expected = np.load(pathlib.Path(folder, EXPECTED))
    np.testing.assert_allclose(np.concatenate(probabilities), expected, atol=1e-5)
    assert np.ptp(expected[:, 0]) > 1e-3, "Rows must differ, or nothing is checked."
