"""Translations of CTranslate2 with weights of this library, token for token."""

import sys
import warnings

import keras
import numpy as np
import pytest

from keras_headattn.decoding import Searcher, Shortlist
from keras_headattn.interop import to_ctranslate2
from keras_headattn.layers import FeedForward, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.models import T5, Transformer
from keras_headattn.positions import LearnedPositions, RotaryPositions
from tests.interop.translators import ENGLISH, GERMAN, pair_of, transformer
from tests.layers.harness import array
from tests.refusals import refused


@pytest.fixture(scope="module")
def ctranslate2():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module", params=[True, False], ids=["one vocabulary", "two"])
def any_pair(request, tmp_path_factory):
    return pair_of(tmp_path_factory.mktemp("pair"), shared=request.param)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return pair_of(tmp_path_factory.mktemp("pair"))


def translations(ctranslate2, model, pair, folder, beam_size, length=12, **options):
    """Pieces and scores of CTranslate2 and of ours."""
    to_ctranslate2(model, folder, pair.source, pair.target, **options)
    theirs = ctranslate2.Translator(str(folder), intra_threads=1, compute_type=options.get("quantization", "float32"))
    ids = np.array(pair.source(ENGLISH))
    pieces = [[pair.source.id_to_token(int(i)) for i in row if i not in (0, pair.source.eos_id)] for row in ids]
    found = theirs.translate_batch(
        pieces, beam_size=beam_size, length_penalty=0, min_decoding_length=0, max_decoding_length=length,
        return_scores=True,
    )  # fmt: skip
    ours = Searcher(model, beam_size, 0.0, length, pair.target.bos_id, pair.target.eos_id)(ids)
    expected = [
        [pair.target.id_to_token(int(i)) for i in row if i not in (0, pair.target.eos_id)]
        for row in array(ours["tokens"])[:, 0]
    ]
    scores = [result.scores[0] for result in found], array(ours["scores"])[:, 0]
    return [result.hypotheses[0] for result in found], expected, scores


def check_same(*arguments, **options):
    found, expected, scores = translations(*arguments, **options)
    assert found == expected
    np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.parametrize("normalization", ["pre", "post"])
def test_norms_and_vocabularies(ctranslate2, any_pair, normalization, tmp_path):
    model = transformer(any_pair, normalization=normalization, num_decoder_layers=1)
    check_same(ctranslate2, model, any_pair, tmp_path / "model", 1)


@pytest.mark.parametrize("normalization", ["pre", "post"])
def test_beams(ctranslate2, pair, normalization, tmp_path):
    """Trained a little, as theirs lets a hypothesis end only among the first K."""
    model = transformer(pair, seed=None, normalization=normalization, dropout=0.0)
    source, german = np.array(pair.source(ENGLISH)), np.array(pair.target(GERMAN))
    shifted = np.pad(german, ((0, 0), (1, 0)), constant_values=pair.target.bos_id)[:, :-1]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(5e-3), loss, jit_compile=False)
    model.fit({"source": source, "target": shifted}, german, epochs=120, verbose=0)
    folder = tmp_path / "model"
    found, expected, scores = translations(ctranslate2, model, pair, folder, 4, length=40)
    assert found == expected and len({tuple(pieces) for pieces in found}) > 1
    np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.parametrize("arguments", [
    dict(attention=GroupedQueryAttention(4, 8, num_key_value_heads=2)),
    dict(attention=GroupedQueryAttention(4, 8), normalization="pre"),
    dict(attention="interacting", normalization="pre"),
    dict(attention=MultiHeadAttention(4, 12, use_bias=False)),
    dict(positions=LearnedPositions(40), output_bias=True),
    dict(positions=None, tie_output=False, output_bias=True),
    dict(norm=keras.layers.RMSNormalization(epsilon=1e-3), normalization="pre"),
    dict(feed_forward=FeedForward(48, "gelu", gated=True, use_bias=False)),
    dict(activation="gelu_tanh", norm=keras.layers.LayerNormalization(epsilon=1e-2)),
], ids="-".join)  # fmt: skip
def test_settings(ctranslate2, pair, arguments, tmp_path):
    check_same(ctranslate2, transformer(pair, **arguments), pair, tmp_path / "model", 1)


@pytest.mark.parametrize("quantization", ["int8", "float32"])
def test_quantization(ctranslate2, pair, quantization, tmp_path):
    found, expected, scores = translations(
        ctranslate2, transformer(pair), pair, tmp_path / "model", 1, quantization=quantization
    )
    size = (tmp_path / "model" / "model.bin").stat().st_size
    assert all(len(pieces) == len(same) for pieces, same in zip(found, expected, strict=True))
    np.testing.assert_allclose(*scores, rtol=0.1 if quantization == "int8" else 1e-4)
    assert (size < 200_000) == (quantization == "int8")


def test_shortlists(ctranslate2, any_pair, tmp_path):
    pair, ids = any_pair, np.array(any_pair.source(ENGLISH))
    sizes = pair.source.vocabulary_size, pair.target.vocabulary_size
    table = np.random.default_rng(1).integers(4, sizes[1], (sizes[0], 2)).astype("int32")
    shortlist, model = Shortlist(table, always=[1, 4, 5, 6], size=sizes[1]), transformer(pair)
    to_ctranslate2(model, tmp_path / "model", pair.source, pair.target, shortlist=shortlist)
    theirs = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    search = Searcher(model, 1, 0.0, 12, pair.target.bos_id, pair.target.eos_id, suppress=[0])
    allowed = {pair.target.id_to_token(int(i)) for i in shortlist.ids(ids)}
    for row in ids:
        pieces = [pair.source.id_to_token(int(i)) for i in row if i not in (0, pair.source.eos_id)]
        options = dict(length_penalty=0, min_decoding_length=0, max_decoding_length=12, return_scores=True)
        options |= dict(beam_size=1, use_vmap=True)
        (found,) = theirs.translate_batch([pieces], **options)
        tokens = search(row[None], shortlist=shortlist.ids(row[None]))
        expected = [pair.target.id_to_token(int(i)) for i in array(tokens["tokens"])[0, 0]]
        assert found.hypotheses[0] == [token for token in expected if token not in ("<pad>", "</s>")]
        assert {*found.hypotheses[0]} <= allowed
        np.testing.assert_allclose(found.scores[0], array(tokens["scores"])[0, 0], rtol=1e-4)


@pytest.mark.parametrize("make, name, received", [
    (lambda pair: transformer(pair, attention="evolving"), "no equivalent", "EvolvingAttention in"),
    (lambda pair: transformer(pair, relative_positions=RotaryPositions()), "no equivalent", "relative_positions="),
    (lambda pair: transformer(pair, activation="elu"), "no equivalent", "FeedForward with elu"),
    (lambda pair: transformer(pair, normalization="output"), "no equivalent", "normalization='output'"),
    (lambda pair: transformer(pair, norm=keras.layers.UnitNormalization()), "no equivalent", "UnitNormalization"),
    (lambda pair: transformer(pair, cross_attention=MultiHeadAttention(2, 16)), "the same heads in all layers", ""),
    (lambda pair: Transformer(60, num_layers=1, hidden_dim=32), "must have as many tokens as the model, 60", ""),
    (lambda pair: T5(50, 16, 32, num_layers=1, num_heads=2, key_dim=8), "model", "T5"),
])  # fmt: skip
def test_no_equal(ctranslate2, pair, make, name, received, tmp_path):
    with refused(name, received) as error:
        to_ctranslate2(make(pair), tmp_path / "model", pair.source, pair.target)
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_folders(ctranslate2, pair, tmp_path, monkeypatch):
    """A folder with files is refused, and one that cannot be written in full is not there."""
    model, given = transformer(pair), (pair.source, pair.target)
    (tmp_path / "note").write_text("mine")
    with refused("folder", tmp_path, FileExistsError):
        to_ctranslate2(model, tmp_path, *given)
    with refused("quantization", "'4'"):
        to_ctranslate2(model, tmp_path / "new", *given, quantization="4")

    def fail(spec, path):
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(ctranslate2.specs.ModelSpec, "_serialize", fail)
        with pytest.raises(OSError, match="full"):
            to_ctranslate2(model, tmp_path / "new", *given)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
    (tmp_path / "new").mkdir()
    to_ctranslate2(model, tmp_path / "new", *given)
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["config.json", "model.bin", "shared_vocabulary.json"]


def test_without_the_package(pair, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match="pip install ctranslate2"):
        to_ctranslate2(transformer(pair), tmp_path / "model", pair.source, pair.target)
