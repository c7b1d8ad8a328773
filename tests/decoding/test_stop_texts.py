"""Texts that end an answer, against a search in the bytes so far."""

import keras
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.decoding import Generator
from keras_headattn.decoding._stop_texts import LONGEST, MOST, StopTexts
from keras_headattn.models import CausalLM

TOKENS = st.lists(st.text("abc", max_size=4).map(str.encode), min_size=1, max_size=6)


def stop_of(texts):
    stop = np.full((MOST, LONGEST), -1, "int32")
    for row, text in enumerate(texts):
        stop[row, : len(text)] = [*text[::-1]]
    return stop


@settings(max_examples=30)
@given(TOKENS, st.data())
def test_stop_is_found_across_tokens(token_texts, data):
    rows = data.draw(
        st.lists(st.lists(st.integers(0, len(token_texts)), min_size=5, max_size=5), min_size=1, max_size=3)
    )
    texts = data.draw(st.lists(st.text("abc", min_size=1, max_size=6).map(str.encode), max_size=3))
    stop = stop_of(texts)
    search = StopTexts(token_texts)
    last_bytes = search.begin(len(rows))
    for index in range(5):
        last_bytes = search.advance(last_bytes, np.array(rows, "int32")[:, index])
        found = np.asarray(search.ends(last_bytes, stop))
        for row, is_found in zip(rows, found, strict=True):
            before, new = (b"".join([*token_texts, b""][i] for i in row[:size]) for size in (index, index + 1))
            if not any(text in before for text in texts):  # an answer goes on until then
                assert is_found == any(text in new for text in texts)


def test_answers_end_with_the_token_that_completes_a_stop():
    model, texts = CausalLM(4, num_layers=1, hidden_dim=16, num_heads=2, seed=1), [b"a", b"ab", b"ba", b"c"]
    generator = Generator(model, max_length=20, num_samples=6, seed=2)
    generator.stop_texts = StopTexts(texts)
    ids = np.array([[1]])
    whole = keras.ops.convert_to_numpy(generator(ids)["tokens"])[0]
    result = generator(
        ids, options=generator.request() | {"stop": keras.ops.convert_to_tensor(stop_of([b"bab", b"cc"]))}
    )
    tokens, lengths = (keras.ops.convert_to_numpy(result[name])[0] for name in ("tokens", "lengths"))
    for row, length, all_ids in zip(tokens, lengths, whole, strict=True):
        so_far = (b"".join(texts[i] for i in all_ids[:size]) for size in range(1, 21))
        expected = next((size for size, text in enumerate(so_far, 1) if b"bab" in text or b"cc" in text), 20)
        assert length == expected
        np.testing.assert_array_equal(row, np.where(np.arange(20) < expected, all_ids, 0))
    assert 1 < lengths.min() < lengths.max()
