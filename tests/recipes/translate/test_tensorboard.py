"""What the translation recipe shows in TensorBoard, of a model that is not trained."""

import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_headattn._files import write_atomically
from keras_headattn.data import ParallelCorpus
from keras_headattn.layers import InteractingHeadAttention
from keras_headattn.models import Transformer
from recipes.classify.settings import ClassifyConfig
from recipes.engine.report import shown_settings, write_confusion, write_scores
from recipes.engine.run import Run
from recipes.translate import tensorboard
from recipes.translate.__main__ import RECIPE
from recipes.translate.settings import TranslateConfig


@pytest.fixture
def transformer():
    attention = InteractingHeadAttention(2, 4, interaction="pairwise")
    model = Transformer(10, 12, num_layers=2, hidden_dim=8, intermediate_dim=16, attention=attention)
    model({"source": np.ones((1, 2), "int32"), "target": np.ones((1, 2), "int32")})
    return model


def encode(sentences):
    """A token id for each word: its length."""
    return [np.array([len(word) for word in sentence.split()] + [3]) for sentence in sentences]


SIDE = types.SimpleNamespace(bos_id=2, id_to_token=str)
TEXT = types.SimpleNamespace(source=SIDE, target=SIDE, encode_source=encode, encode_target=encode)


def test_attention_of_every_layer_and_kind(transformer):
    corpus = ParallelCorpus(
        ["a house", "one", "the old house is big"], ["ein Haus", "eins", "das alte Haus ist gross"], "demo"
    )
    images = tensorboard.attention_of_samples(transformer, TEXT, corpus)(None)
    assert sorted(images) == sorted(
        f"sentence {sentence}/{kind}, layer {layer}"
        for sentence in (1, 2)
        for kind in ("encoder self-attention", "decoder self-attention", "cross-attention")
        for layer in (1, 2)
    )
    maps, queries, keys = images["sentence 1/cross-attention, layer 2"]  # of the longer sentence
    assert queries == ["3", "4", "4", "3", "5", "3"] and keys == ["3", "3", "5", "2", "3", "3"]
    assert maps.shape == (4, 6, 6)  # two heads make four pairs
    np.testing.assert_allclose(maps.sum(axis=-1), 1, rtol=1e-5)
    maps, queries, keys = images["sentence 1/decoder self-attention, layer 1"]
    assert queries == ["3", "4", "4", "3", "5", "3"] and keys == ["2", "3", "4", "4", "3", "5"]  # written, and read
    assert not np.triu(maps[0], 1).any()


def test_settings_shown_are_those_that_change_what_is_trained():
    config = TranslateConfig(model_arguments=dict(dropout=0.2), beam_size=7, seed=3, built_in=True)
    assert shown_settings(config) == {
        "attention": "multi_head",
        "seed": 3,
        "model_arguments.dropout": 0.2,
        "built_in": True,
    }
    config = TranslateConfig(attention="evolving", attention_arguments={"alpha": 0.1, "mixture": ("a",)}, num_heads=4)
    shown = shown_settings(config)
    assert shown == {"attention": "evolving", "attention_arguments.alpha": 0.1, "num_heads": 4, "seed": 0}


def test_a_bilstm_shows_no_attention():
    config = ClassifyConfig(built_in=True)
    assert not {"attention", "num_heads"} & shown_settings(config).keys()
    assert shown_settings(config.changed({"encoder": "transformer"}))["attention"] == "multi_head"


def test_results_are_shown_with_the_scores(tmp_path):
    run = Run(tmp_path, RECIPE)
    run.start(TranslateConfig(built_in=True, model_arguments=dict(dropout=0.25)))
    for name, lines in (("sources", ["a|b", "<i>c</i>"]), ("hypotheses", ["d", "e"]), ("references", ["f", "g"])):
        write_atomically(run.results / "test" / f"{name}.txt", "".join(f"{line}\n" for line in lines).encode())
    write_atomically(run.results / "test" / "scores.json", b'{"bleu": {"value": 12.5}}')
    write_confusion(run.results / "test", [0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]], ["bad", "good"])
    write_scores(run)
    shown = EventAccumulator(run.log_dir).Reload()
    texts = {tag: shown.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in ("settings", "samples/test")}
    assert "| model_arguments.dropout | 0.25 |" in texts["settings"]
    assert texts["samples/test"].splitlines()[2:] == ["| a&#124;b | d | f |", "| &lt;i&gt;c&lt;/i&gt; | e | g |"]
    width, height = map(int, shown.Tensors("confusion/test")[0].tensor_proto.string_val[:2])
    assert width > 100 and height > 100 and "test/test/bleu" in shown.Tags()["tensors"]


def test_embeddings_are_written_for_both_languages(transformer, tmp_path):
    tensorboard.show_embeddings(types.SimpleNamespace(folder=tmp_path), transformer, TEXT)
    for side, rows in (("source", 10), ("target", 12)):
        lines = (tmp_path / "tensorboard" / f"{side}.tsv").read_text().split()
        assert lines == [str(i) for i in range(rows)]


def test_operations_of_a_token(transformer):
    batches = types.SimpleNamespace(num_tokens={"source": 100, "target": 50})
    used = tensorboard.flops_utilization(transformer, batches, peak_flops=1e9)
    attention = 3 * 8 * 2 * 4 + 4 * 4 * 8  # queries, keys and values of two heads; four pairs
    encoder, decoder = (2 * (number * attention + 2 * 8 * 16) for number in (1, 2))
    assert used.flops_per_token == 6 * (2 * encoder + decoder + 12 * 8)
