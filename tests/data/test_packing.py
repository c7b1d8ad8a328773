import numpy as np

from keras_headattn.data import pack_ids


def test_every_text_is_there_once():
    rng = np.random.default_rng(0)
    texts = [rng.integers(1, 99, size) for size in rng.integers(0, 33, 300)]
    packed = pack_ids(texts, 32, pad_id=100)
    for index, text in enumerate(texts):
        rows, columns = np.nonzero(packed["sequence_ids"] == index)
        assert len({*rows}) <= 1 and (np.diff(columns) == 1).all()
        np.testing.assert_array_equal(packed["token_ids"][rows, columns], text)
    assert ((packed["sequence_ids"] == -1) == (packed["token_ids"] == 100)).all()
    total = sum(map(len, texts))
    assert len(packed["token_ids"]) <= 1.05 * -(-total // 32)
    assert {x.dtype.name for x in packed.values()} == {"int32"}


def test_none():
    assert {x.shape for x in pack_ids([], 4).values()} == {(0, 4)}
