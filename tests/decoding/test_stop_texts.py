"""Texts that end an answer, against a search in the bytes so far."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.decoding._stop_texts import LONGEST, MOST, StopTexts

TOKENS = st.lists(st.text("abc", max_size=4).map(str.encode), min_size=1, max_size=6)


@settings(max_examples=30)
@given(TOKENS, st.data())
def test_stop_is_found_across_tokens(token_texts, data):
    rows = data.draw(
        st.lists(st.lists(st.integers(0, len(token_texts)), min_size=5, max_size=5), min_size=1, max_size=3)
    )
    texts = data.draw(st.lists(st.text("abc", min_size=1, max_size=6).map(str.encode), max_size=3))
    stop = np.full((MOST, LONGEST), -1, "int32")
    for row, text in enumerate(texts):
        stop[row, : len(text)] = [*text[::-1]]
    search = StopTexts(token_texts)
    last_bytes = search.begin(len(rows))
    for index in range(5):
        last_bytes = search.advance(last_bytes, np.array(rows, "int32")[:, index])
        found = np.asarray(search.ends(last_bytes, stop))
        for row, is_found in zip(rows, found, strict=True):
            before, new = (b"".join([*token_texts, b""][i] for i in row[:size]) for size in (index, index + 1))
            if not any(text in before for text in texts):  # an answer goes on until then
                assert is_found == any(text in new for text in texts)
