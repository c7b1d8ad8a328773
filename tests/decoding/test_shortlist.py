"""Search among few tokens: as if all others were suppressed; and lists learnt from pairs of sentences."""

import zipfile

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Searcher, Shortlist
from tests.decoding.tables import check_same, ended_tokens, log_softmax, naive_beam_search, score
from tests.decoding.test_searcher import END, START, STEPS, one_shot_log_probs, sources, translator, usual
from tests.models.small import TARGET_VOCABULARY, array
from tests.refusals import refused

LIST = np.array([8, 5, 7, 9, 6, 4, 0, 0], "int32")
OTHERS = [token for token in range(TARGET_VOCABULARY) if token not in (END, *LIST)] + [0]
OPTIONS = {
    "greedy": dict(beam_size=1),
    "beam": dict(beam_size=3),
    "constrained": dict(
        beam_size=3, min_length=2, no_repeat_ngram_size=2, repetition_penalty=1.3, coverage_penalty=0.2
    ),
    "suppressed": dict(beam_size=2, suppress=[0, 7]),
    "samples": dict(num_samples=3, temperature=1.5, top_k=4),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("output", ["tied", "tied, with a bias", "untied, with a bias"])
def test_as_if_others_were_suppressed(name, output):
    model = usual() if output == "tied" else translator(output_bias=True, tie_output=output != "untied, with a bias")
    if output != "tied":
        bias = model.tied_bias if model.tie_output else model.output_projection.bias
        bias.assign(np.linspace(-1, 1, TARGET_VOCABULARY))
    options = OPTIONS[name]
    common = dict(max_length=STEPS, start_id=START, end_id=END, return_token_scores=True)
    searcher = Searcher(model, **common, **options)
    found = tf.function(searcher, autograph=False)(sources(), shortlist=tf.constant(LIST))
    suppressed = options | {"suppress": [*options.get("suppress", ()), *OTHERS]}
    expected = Searcher(model, **common, **suppressed)(sources())
    if name == "samples":  # drawn from another order of tokens
        assert set(array(found["tokens"]).ravel()) <= {0, END, *LIST}
        return
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)
    np.testing.assert_allclose(found["token_scores"], expected["token_scores"], rtol=1e-4, atol=1e-5)


def test_prefixes():
    prefix = np.array([[7, 9], [8, 0], [0, 0]])
    common = dict(max_length=STEPS, start_id=START, end_id=END)
    found = Searcher(usual(), **common)(sources(), prefix=prefix, shortlist=LIST)
    expected = Searcher(usual(), suppress=OTHERS, **common)(sources(), prefix=prefix)
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])


def log_probs_among(model, source, allowed, prefix=(), suppress=()):
    """Log probabilities over the `allowed` tokens alone; a prefix is forced, and scored without `suppress`."""
    of_all, kept = one_shot_log_probs(model, source), [token for token in allowed if token not in suppress]

    def log_probs(hypotheses):
        found = np.full((len(hypotheses), TARGET_VOCABULARY), -np.inf)
        for row, hypothesis, own in zip(found, hypotheses, of_all(hypotheses), strict=True):
            step = len(hypothesis)
            if step < len(prefix):
                row[prefix[step]] = log_softmax(own[allowed])[allowed.index(prefix[step])]
            else:
                row[kept] = log_softmax(own[kept])
        return found

    return log_probs


@pytest.mark.parametrize("tokens, favourite", [(LIST, None), (LIST, 0), (LIST, START), ([START, 8, 5, 0], START)])
def test_same_as_the_naive_search(tokens, favourite):
    """Padding is never produced, and the start only if the list has it, however likely."""
    tokens = np.array(tokens, "int32")
    model = usual() if favourite is None else translator(output_bias=True)
    if favourite is not None:
        model.tied_bias.assign(5.0 * np.eye(TARGET_VOCABULARY)[favourite])
    allowed = [END, *(int(token) for token in tokens if token)]
    common = dict(alpha=0.6, max_length=STEPS, start_id=START, end_id=END)
    beam, greedy = (Searcher(model, size, **common)(sources(), shortlist=tokens) for size in (3, 1))
    samples = Searcher(model, num_samples=2, **common)(sources(), shortlist=tokens)
    for i, source in enumerate(sources()):
        log_probs = log_probs_among(model, source, allowed)
        check_same(
            array(beam["tokens"])[i],
            array(beam["scores"])[i],
            naive_beam_search(log_probs, STEPS, END, 3, 0.6),
            1e-4,
            END,
        )
        for found in (greedy, samples):
            for row, value in zip(array(found["tokens"])[i], array(found["scores"])[i], strict=True):
                assert value == pytest.approx(score(log_probs, ended_tokens(row, END), 0.6), abs=1e-3)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("prefix", [(7,), (8, 7, 9), (9,)])
def test_scored_prefixes_with_suppressed_tokens(prefix, beam_size):
    """A prefix overrides `suppress`, and is scored without it."""
    model, suppress = usual(), (7, 5)
    searcher = Searcher(
        model, beam_size, 0.0, STEPS, START, END, suppress=suppress, score_prefix=True, return_token_scores=True
    )
    found = searcher(sources(), prefix=np.array([prefix] * len(sources())), shortlist=LIST)
    allowed = [END, *(int(token) for token in LIST if token)]
    for i, source in enumerate(sources()):
        log_probs = log_probs_among(model, source, allowed, prefix, suppress)
        if beam_size > 1:
            expected = naive_beam_search(log_probs, STEPS, END, beam_size, 0.0)
            check_same(array(found["tokens"])[i], array(found["scores"])[i], expected, 1e-4, END)
        row = ended_tokens(array(found["tokens"])[i, 0], END)
        assert row[: len(prefix)] == prefix
        assert float(found["scores"][i, 0]) == pytest.approx(score(log_probs, row, 0.0), abs=1e-3)


def test_the_end_follows_where_an_empty_list_leaves_nothing():
    searcher = Searcher(usual(), 2, 0.0, STEPS, START, END, min_length=2)
    found = searcher(sources(), shortlist=np.zeros(4, "int32"))
    assert array(found["tokens"])[:, 0].tolist() == [[END] + [0] * (STEPS - 1)] * len(sources())
    assert np.isfinite(found["scores"][:, 0]).all()


def test_ids_of_a_batch():
    shortlist = Shortlist(np.array([[0, 0, 0], [5, 6, 0], [7, 5, 8], [3, 0, 0]]), always=[2, 9], size=5)
    assert shortlist.ids(np.array([[1, 0]])).tolist() == [2, 9, 5, 6, 0]
    assert shortlist.ids(np.array([[1, 2], [1, 0]])).tolist() == [2, 9, 5, 7, 6]
    assert shortlist.ids(np.array([[3, 3]])).dtype == "int32"
    assert shortlist.ids(np.array([[1, 0]]), also=[[6, 0], [8, 2]]).tolist() == [6, 8, 2, 9, 5]
    with refused("`also`", "6 ids"):
        shortlist.ids(np.array([[1, 0]]), also=[[6, 3, 4], [8, 2, 9]])


def test_what_translates_what_is_learnt():
    """Words of a toy language, number + 10, in another order, with words that are everywhere."""
    random = np.random.default_rng(0)
    pairs = [random.choice(np.arange(4, 20), 5, replace=False) for _ in range(300)]
    targets = [np.concatenate([random.permutation(words) + 20, [3]]) for words in pairs]
    sources = [np.append(words, 3) for words in pairs]
    shortlist = Shortlist.learn(sources, targets, source_size=21, candidates=2, frequent=1, size=8)
    assert shortlist.table.shape == (21, 2) and shortlist.always == [3]
    assert shortlist.table[4:20, 0].tolist() == list(range(24, 40))
    assert shortlist.table[3, 0] == 3 and not shortlist.table[20].any()


def test_files(tmp_path):
    made = Shortlist(np.array([[0, 0], [5, 6]], "int32"), always=[7, 8], size=9)
    made.save(tmp_path / "list.npz")
    for size in (None, 3):
        again = Shortlist.load(tmp_path / "list.npz", size)
        assert again.table.tolist() == [[0, 0], [5, 6]] and again.always == [7, 8] and again.size == (size or 9)
    with refused("`always`", "2 ids"):
        Shortlist.load(tmp_path / "list.npz", 1)
    (tmp_path / "text.npz").write_text("no list")
    with refused("shortlist", "text.npz"):
        Shortlist.load(tmp_path / "text.npz")
    np.savez(tmp_path / "sizes.npz", table=made.table, always=[7, 8], size=[9, 9, 9])
    with refused("shortlist", "sizes.npz"):
        Shortlist.load(tmp_path / "sizes.npz")
    with zipfile.ZipFile(tmp_path / "list.npz") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = parts["table.npy"].replace(b"'shape': (2, 2), }" + b" " * 14, b"'shape': (2" + b"0" * 14 + b", 2), }")
    with zipfile.ZipFile(tmp_path / "lies.npz", "w") as file:
        for name, data in (parts | {"table.npy": header}).items():
            file.writestr(name, data)
    with refused("shortlist", "lies.npz"):
        Shortlist.load(tmp_path / "lies.npz")
