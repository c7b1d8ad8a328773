"""Recipes that begin with the checkpoint of another library: from its folder to a finished run.

Those that begin with a T5 or with a run are in `test_glue_parts.py` and `test_pretrain.py`, Marian's in
`tests/interop/test_marian.py`.
"""

import json
import warnings

import keras
import numpy as np
import pytest

from keras_headattn.interop import to_hugging_face
from keras_headattn.models import Bert
from recipes.engine.command import _format_warning
from recipes.glue import __main__ as glue
from recipes.rationales import __main__ as rationales
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import write_eraser
from recipes.rationales.modelling import make_encoder
from tests.recipes.commands import run_here, train_here

WORDS = "the plot story film is was truly really great good poor dull . a it seemed".split()
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"bcdefg"]


@pytest.fixture(scope="module", params=[None, "electra", "roberta"])
def checkpoint(request, tmp_path_factory):
    """`(folder, encoder)`: a small random encoder as Hugging Face has it. `None` is a BERT with a pooler."""
    folder, kind = tmp_path_factory.mktemp("checkpoint"), request.param
    sizes = dict(num_layers=2, hidden_dim=8, intermediate_dim=16, num_heads=2, max_length=40)
    names = dict(num_segments=0, pad_id=1, skip_padding=True) if kind == "roberta" else {}
    size = 12 if kind == "roberta" else len(TOKENS)
    encoder = Bert(size, **sizes, **names, pooler=kind is None)
    encoder.build()
    to_hugging_face(encoder, folder, kind)
    if kind == "roberta":
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefg", "<mask>"]
        (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(vocabulary)}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
    else:
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return folder, encoder


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eraser")
    for name, corpus in reviews(12, 4, 4, seed=1).items():
        write_eraser(corpus, folder, name)
    return folder


def test_rationales(checkpoint, documents, tmp_path, monkeypatch, capsys):
    folder, encoder = checkpoint
    given = dict(eraser=str(documents), checkpoint=str(folder), window=32, max_windows=2, batch_size=4, epochs=1)
    given |= dict(
        num_buckets=1,
        model_arguments=dict(lstm_dim=4, pooling_dim=4, hidden_dim=4),
        quiet=True,
        run=str(tmp_path / "run"),
    )
    config = rationales.RECIPE.settings().changed(given)
    kept = {weight.path.partition("/")[2]: weight.numpy() for weight in encoder.weights}
    for weight in make_encoder(config, None).weights:
        np.testing.assert_array_equal(weight, kept[weight.path.partition("/")[2]])
    if encoder.pooler is None:
        return  # one encoder is trained: the steps after this are the same
    _, history = train_here(rationales.RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["val_loss"])
    (tmp_path / "texts.txt").write_text("the plot was dull .\tis it good\n")
    options = ["--kinds", "attention", "cls", "gradient"]
    printed = run_here(rationales.main, capsys, "explain", tmp_path / "run", tmp_path / "texts.txt", *options)
    assert json.loads(printed)["words"] == "the plot was dull .".split()


def test_other_heads(checkpoint, tmp_path):
    """A run says once, in a line, which option keeps what the checkpoint computes."""
    rows = (f"the plot was dull{' .' * row},a\nit was good{' .' * row},b\n" for row in range(20))
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(rows))
    given = ["--train", tmp_path / "texts.csv", "--checkpoint", checkpoint[0], "--attention", "talking_heads"]
    given += ["--epochs", 1, "--max-length", 20, "--export", "none", "--dry-run"]
    for arguments in ([], ["--attention-arguments", "mixing_initializer=identity"]):
        with warnings.catch_warnings(record=True, action="always") as warned:
            glue.main([*map(str, given), *arguments])
        (*lines,) = (_format_warning(warning.message) for warning in warned if "Quality" in str(warning.message))
        assert len(lines) == (not arguments)
        assert all(line.endswith("Give --attention-arguments mixing_initializer=identity.\n") for line in lines)


def test_glue(checkpoint, tmp_path, monkeypatch):
    folder, encoder = checkpoint
    rows = [f"gj04\t{i % 2}\t\tthe plot was {('dull', 'good')[i % 2]} ." for i in range(16)]
    (tmp_path / "cola.tsv").write_text("".join(f"{row}\n" for row in rows))
    given = dict(task="cola", train=(str(tmp_path / "cola.tsv"),), validation=(str(tmp_path / "cola.tsv"),))
    given |= dict(checkpoint=str(folder), epochs=1, batch_size=8, num_buckets=1, max_length=20, export=None)
    config = glue.RECIPE.settings().changed(given | dict(run=str(tmp_path / "run"), quiet=True))
    weights, history = train_here(glue.RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["val_loss"]) and len(weights) > len(encoder.get_weights())
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", compile=False)
    assert (model.encoder.pooler is not None) == (encoder.pooler is not None)
