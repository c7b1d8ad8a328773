import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import RowBatches, TokenFile, write_tokens
from keras_headattn.data._packing import fill_rows
from keras_headattn.text import BytePairTokenizer, ByteTokenizer
from keras_headattn.training import Model, Resume
from tests.buffers import keeps_buffers
from tests.refusals import refused

RNG = np.random.default_rng(0)
TEXTS = ["".join(map(chr, RNG.integers(97, 123, size))) for size in RNG.integers(1, 40, 60)]
WITH_BEGINNING = BytePairTokenizer(
    ["<b>", *map(chr, range(97, 123))], [], specials={"bos": "<b>"}, add_eos=False
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of ids that are all different, so that an id is its place, and one with documents."""
    folder = tmp_path_factory.mktemp("tokens")
    for size in range(2, 120):
        np.arange(size, dtype="<u2").tofile(folder / f"{size}.bin")
    write_tokens(folder / "end.bin", TEXTS, ByteTokenizer())
    write_tokens(folder / "begin.bin", TEXTS, WITH_BEGINNING)
    return folder


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 119), st.integers(1, 9), st.integers(1, 5), st.integers(0, 3), st.booleans())
def test_streams(folder, size, length, batch_size, seed, shuffle):
    """Rows follow each other in the file, each id is a label at most once, and all epochs have as many batches."""
    tokens = TokenFile(folder / f"{size}.bin")
    options = dict(length=length, batch_size=batch_size, shuffle=shuffle, seed=seed)
    if size <= batch_size * length:
        with refused("tokens", f"{size} ids"):
            RowBatches(tokens, **options)
        return
    batches = RowBatches(tokens, **options)
    rows = size - length if shuffle else size - 1
    assert len(batches) == max(rows // length // batch_size, 1)
    for batches.epoch in range(3):
        inputs, labels = (np.concatenate(side) for side in zip(*batches, strict=True))
        assert inputs.shape == labels.shape == (len(batches) * batch_size, length) and inputs.dtype == "int32"
        np.testing.assert_array_equal(labels, inputs + 1)
        assert (np.diff(inputs, axis=1) == 1).all() and len(np.unique(labels)) == labels.size
        assert len({*(inputs[:, 0] % length)}) == 1 and (shuffle or inputs[0, 0] == 0)
    assert batches.lost_share == pytest.approx(1 - labels.size / size)


def test_the_order(folder):
    """It depends on seed and epoch; offsets and rows are uniform."""
    batches = RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=3, seed=5)
    again = RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=3, seed=5)
    firsts = []
    for batches.epoch in range(700):
        firsts.append(batches[0][0][0, 0])
    again.epoch = 430
    batches.epoch = 430
    for (a, _), (b, _) in zip(batches, again, strict=True):
        np.testing.assert_array_equal(a, b)
    # Chi-squared, 0.999 quantiles for 6 and 15 degrees of freedom; each offset leaves 16 rows.
    for values, kinds, most in ((np.array(firsts) % 7, 7, 22.5), (np.array(firsts) // 7, 16, 37.7)):
        counts = np.bincount(values, minlength=kinds)
        assert len(counts) == kinds and ((counts - 700 / kinds) ** 2 / (700 / kinds)).sum() < most
    other = RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=3, seed=6)
    assert [other[0][0].tolist(), again[0][0].tolist()].count(batches[0][0].tolist()) == 1


def filled(lengths, length, buffer):
    """Rows of documents by looking through the whole buffer each time."""
    upcoming, waiting, rows = [*enumerate(lengths)], [], []
    while upcoming or waiting:
        row, room = [], length
        while room and (upcoming or waiting):
            while upcoming and len(waiting) < buffer:
                waiting.append(upcoming.pop(0))
            fitting = [document for document in waiting if document[1] <= room]
            best = max(fitting, key=lambda d: (d[1], -d[0])) if fitting else min(waiting, key=lambda d: (d[1], -d[0]))
            waiting.remove(best)
            row.append((best[0], min(best[1], room)))
            room -= row[-1][1]
        rows += [row] if not room else []
    return rows


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 12), max_size=40), st.integers(1, 15), st.integers(1, 6))
def test_documents_in_rows(lengths, length, buffer):
    assert list(fill_rows(lengths, length, buffer)) == filled(lengths, length, buffer)


@pytest.mark.parametrize("name", ["begin", "end"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_of_documents(name, shuffle, folder):
    """Each row is whole documents, the last perhaps cut; no document comes twice, and epochs have the same rows."""
    tokens = TokenFile(folder / f"{name}.bin")
    batches = RowBatches(tokens, 24, 2, "documents", separate_documents=True, shuffle=shuffle)
    ends = [*tokens.document_starts()[1:], len(tokens)]
    documents = [tokens.tokens[a:b].tolist() for a, b in zip(tokens.document_starts(), ends, strict=True)]
    epochs = []
    for batches.epoch in range(2):
        rows = []
        for inputs, labels in batches:
            np.testing.assert_array_equal(inputs["token_ids"][:, 1:], labels[:, :-1])
            whole = np.concatenate([inputs["token_ids"], labels[:, -1:]], axis=1)
            rows += [*zip(whole.tolist(), inputs["sequence_ids"].tolist(), strict=True)]
        epochs.append(rows)
    assert len(rows) == 2 * len(batches) and sorted(epochs[0]) == sorted(epochs[1])
    assert (epochs[0] != epochs[1]) == shuffle
    pieces = []
    for ids, numbers in epochs[0]:
        marks = [i for i, x in enumerate(ids) if x == (0 if name == "begin" else 256)]
        starts = marks if name == "begin" else [0, *(i + 1 for i in marks if i < 24)]
        row = [ids[a:b] for a, b in zip(starts, [*starts[1:], 25], strict=True)]
        assert starts[0] == 0 and numbers == [i for i, piece in enumerate(row) for _ in piece][:24]
        assert all(piece in documents for piece in row[:-1])
        pieces += row
    cut = [piece for piece in pieces if piece not in documents]
    assert 0 < len(cut) < len(epochs[0]) and all(any(d[: len(c)] == c for d in documents) for c in cut)
    assert all(pieces.count(d) <= documents.count(d) for d in documents) and len(pieces) <= len(documents)
    assert batches.lost_share == pytest.approx(1 - 25 * len(rows) / len(tokens))


def test_documents_in_a_stream(folder):
    batches = RowBatches(TokenFile(folder / "end.bin"), 24, 2, separate_documents=True)
    for inputs, _ in batches.dataset().as_numpy_iterator():
        for ids, numbers in zip(inputs["token_ids"].tolist(), inputs["sequence_ids"].tolist(), strict=True):
            assert numbers == [ids[:place].count(256) for place in range(24)]
    spec = batches.dataset().element_spec
    assert {s.shape for s in keras.tree.flatten(spec)} == {(2, 24)} and int(batches.dataset().cardinality()) == len(
        batches
    )


def test_weights_of_examples_of_one_length(folder):
    """Rows begin with an example in every epoch, and the mean loss is that of the weighted labels."""
    batches = RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=4, weights=[0, 0, 1, 0, 0, 1, 0])
    for batches.epoch in range(5):
        for inputs, labels, weights in batches:
            assert (inputs[:, 0] % 7 == 0).all() and (labels == inputs + 1).all()
            np.testing.assert_array_equal(weights, np.tile(np.float32([0, 0, 3.5, 0, 0, 3.5, 0]), (4, 1)))
    *_, weights = next(iter(batches.dataset()))
    assert weights.shape == (4, 7) and weights.dtype == "float32"
    for wrong in ([1] * 6, [0] * 7, [-1] + [1] * 6, [np.nan] + [1] * 6, [np.inf] * 7):
        with refused("weights", "shape"):
            RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=4, weights=wrong)


def test_resumed_training_sees_the_same_batches(folder, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 19:
                raise KeyboardInterrupt

    def train(name, *callbacks):
        keras.utils.set_random_seed(1)
        inputs = keras.Input([24], dtype="int32")
        model = Model(inputs, keras.layers.Dense(257)(keras.layers.Embedding(257, 2)(inputs)))
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        batches = RowBatches(TokenFile(folder / "end.bin"), 24, 4)
        resume = Resume(tmp_path / name, batches, every=4)
        model.fit(batches.dataset(), epochs=3, shuffle=False, verbose=0, callbacks=[resume, *callbacks])
        return model.get_weights()

    whole = train("whole")
    with pytest.raises(KeyboardInterrupt):
        train("stopped", Stop())
    keras.tree.map_structure(np.testing.assert_array_equal, whole, train("stopped"))


def test_refused(folder, tmp_path):
    plain = TokenFile(folder / "99.bin")
    for options in (dict(rows="documents"), dict(separate_documents=True)):
        with refused("tokens", plain.path):
            RowBatches(plain, 4, 2, **options)
    for name, value in (("rows", "random"), ("length", 0), ("batch_size", 1.5)):
        with refused(name, value):
            RowBatches(plain, **({"length": 4, "batch_size": 2} | {name: value}))
    with refused("tokens", "0 rows"):
        RowBatches(TokenFile(folder / "end.bin"), 5000, 1, rows="documents")
    batches = RowBatches(TokenFile(folder / "99.bin", WITH_BEGINNING), 4, 24, shuffle=False)
    with refused("ids below 27", 96):
        batches[0]
    with pytest.raises(IndexError, match="index=1"):
        batches[1]


def test_glibc_keeps_freed_buffers(folder):
    batches = RowBatches(TokenFile(folder / "119.bin"), length=7, batch_size=3)
    assert keeps_buffers(lambda: batches[0])
