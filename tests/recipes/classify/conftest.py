import numpy as np
import pytest


@pytest.fixture
def table(tmp_path):
    """A data set of three labels, told by one word each."""
    rng = np.random.default_rng(0)
    words = "red blue green one two three four".split()
    rows = ["review,second,stars"]
    for label in rng.integers(0, 3, size=60):
        texts = (" ".join(rng.choice(words[3:], size=rng.integers(1, 6))) for _ in range(2))
        rows.append(f"{words[label]} {','.join(texts)},{label}")
    path = tmp_path / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path
