"""Out to Hugging Face's layout, in again, and what has no equal there."""

import itertools
import os

import keras
import numpy as np
import pytest

from keras_headattn.interop import from_pretrained, generation_settings, read_tensors, to_hugging_face, tokenizer_of
from keras_headattn.layers import EvolvingAttention, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.models import (
    T5,
    Bert,
    EncoderClassifier,
    MaskedLM,
    ReplacedTokenDetector,
    SpanAnswerer,
    TokenClassifier,
    Transformer,
)
from keras_headattn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from keras_headattn.text import SentencePieceTokenizer
from tests.interop import translators
from tests.interop.folders import CONFIGS, ids, state_of, write
from tests.layers.harness import array, randomize
from tests.refusals import refused

SIZES = dict(vocabulary_size=20, hidden_dim=8, intermediate_dim=12, num_layers=1, num_heads=2)
ROBERTA = dict(num_segments=0, pad_id=1, skip_padding=True, pooler=False)


def same(model, again):
    model, again = ({w.path.split("/", 1)[1]: array(w) for w in each.weights} for each in (model, again))
    assert len(model) == len(again)
    for first, second in zip(model.values(), again.values(), strict=True):
        np.testing.assert_array_equal(first, second)


def built(model):
    model.build()
    return randomize(model, 1)


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_in_and_out(kind, tmp_path):
    """The tensors of the checkpoint itself, but for those that RoBERTa's import adds up."""
    head = {"bert": "masked_lm", "roberta": "masked_lm", "electra": "replaced_token"}.get(kind)
    to_hugging_face(from_pretrained(write(tmp_path / "in", kind), head=head), tmp_path / "out")
    found, given = read_tensors(tmp_path / "out"), state_of(kind)
    assert found.keys() == given.keys()
    folded = {f"roberta.embeddings.{name}_embeddings.weight" for name in ("position", "token_type")}
    for name in given.keys() - folded:
        np.testing.assert_array_equal(found[name], given[name])


@pytest.mark.parametrize("model, head", [
    (lambda: Bert(**SIZES), None),
    (lambda: Bert(**SIZES, **ROBERTA), None),
    (lambda: Bert(**SIZES, embedding_dim=6, pooler=False), None),
    (lambda: MaskedLM(Bert(**SIZES)), "masked_lm"),
    (lambda: MaskedLM(Bert(**SIZES, **ROBERTA)), "masked_lm"),
    (lambda: ReplacedTokenDetector(Bert(**SIZES, pooler=False)), "replaced_token"),
    (lambda: EncoderClassifier(Bert(**SIZES), 3), "classifier"),
    (lambda: EncoderClassifier(Bert(**SIZES, **ROBERTA), 3, kind="roberta"), "classifier"),
    (lambda: SpanAnswerer(Bert(**SIZES)), "span_answerer"),
    (lambda: SpanAnswerer(Bert(**SIZES, **ROBERTA)), "span_answerer"),
    (lambda: SpanAnswerer(Bert(**SIZES, embedding_dim=6, pooler=False)), "span_answerer"),
    (lambda: TokenClassifier(Bert(**SIZES, pooler=False), 3), "token_classifier"),
    (lambda: TokenClassifier(Bert(**SIZES, **ROBERTA), 3), "token_classifier"),
    (lambda: TokenClassifier(Bert(**SIZES, embedding_dim=6, pooler=False), 3), "token_classifier"),
    (lambda: T5(**SIZES, num_decoder_layers=2, key_dim=3), None),
    (lambda: T5(**SIZES, key_dim=3, gated=True, activation="gelu_tanh", tie_output=False), None),
])  # fmt: skip
def test_out_and_in(model, head, tmp_path):
    model = built(model())
    to_hugging_face(model, tmp_path)
    same(model, from_pretrained(tmp_path, head=head))


@pytest.mark.parametrize("attention", ["interacting", GroupedQueryAttention(2, 4, num_key_value_heads=1)])
@pytest.mark.parametrize("kind", [Bert, T5])
def test_layers_that_equal_multi_head_attention(kind, attention, tmp_path):
    model = built(kind(**(SIZES | {"num_layers": 2}), **({"key_dim": 4} if kind is T5 else {}), attention=attention))
    to_hugging_face(model, tmp_path)
    again = from_pretrained(tmp_path)
    block = (again.blocks if kind is Bert else again.decoder_blocks)[1]
    assert type(block.attention) is MultiHeadAttention
    given = ids(4) % 20
    given = {"source": given, "target": given} if kind is T5 else given
    for found, expected in zip(*(keras.tree.flatten(each(given)) for each in (again, model)), strict=True):
        np.testing.assert_allclose(array(found), array(expected), atol=1e-6)


def test_the_deviation_of_new_weights_goes_along(tmp_path):
    to_hugging_face(built(Bert(**SIZES, initializer_range=0.05)), tmp_path)
    assert from_pretrained(tmp_path).initializer_range == 0.05


def test_a_file_is_replaced_in_full(tmp_path):
    to_hugging_face(built(Bert(**SIZES)), tmp_path)
    with refused("no equivalent", "EvolvingAttention"):
        to_hugging_face(Bert(**SIZES, attention="evolving"), tmp_path)
    assert from_pretrained(tmp_path).num_layers == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("done", range(3))
def test_an_interrupted_export_leaves_no_mixture(done, tmp_path, monkeypatch):
    old, new = (built(Bert(**SIZES, activation=name)) for name in ("relu", "gelu"))
    to_hugging_face(old, tmp_path)
    replace, calls = os.replace, itertools.count()

    def interrupted(*paths):
        if next(calls) == done:
            raise KeyboardInterrupt
        replace(*paths)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        to_hugging_face(new, tmp_path)
    if done == 0:
        assert from_pretrained(tmp_path).activation == "relu"
    else:
        with refused("damaged", "model.safetensors"):
            from_pretrained(tmp_path)


def transformer(**arguments):
    positions = SinusoidalPositions(endpoint=False)
    norm = keras.layers.LayerNormalization(epsilon=1e-5)
    return Transformer(**{**dict(
        source_vocabulary_size=12, num_layers=1, hidden_dim=8, intermediate_dim=12, num_heads=2, norm=norm,
        positions=positions, output_bias=True,
    ), **arguments})  # fmt: skip


def test_translators(tmp_path):
    model = built(transformer())
    to_hugging_face(model, tmp_path)
    same(model, from_pretrained(tmp_path))


@pytest.mark.parametrize("model, received", [
    (lambda: Bert(**SIZES, attention="evolving"), "EvolvingAttention in"),
    (lambda: Bert(**SIZES, attention=EvolvingAttention(2, 4, alpha=0.0, beta=0.0)), "EvolvingAttention"),
    (lambda: Bert(**SIZES, attention=MultiHeadAttention(2, 4, qk_norm=True)), "qk_norm=True"),
    (lambda: Bert(**SIZES, attention=MultiHeadAttention(2, 4, use_bias=False)), "use_bias=False"),
    (lambda: Bert(**SIZES, attention=MultiHeadAttention(4, 4)), "num_heads=4, key_dim=4"),
    (lambda: Bert(**SIZES, activation="elu"), "activation=elu"),
    (lambda: EncoderClassifier(Bert(**SIZES, pooler=False), 3, head_dim=5), "head_dim=5"),
    (lambda: EncoderClassifier(Bert(**SIZES, embedding_dim=6, pooler=False), 3, "linear"), "kind='linear'"),
    (lambda: EncoderClassifier(Bert(**SIZES, pooler=False), 3, pooling="mean"), "pooling='mean'"),
    (lambda: T5(**SIZES, attention="real_former"), "RealFormerAttention"),
    (lambda: transformer(positions="sinusoidal"), "normalization='post', endpoint=True, first=0"),
    (lambda: transformer(tie_output=False), "tie_output=False"),
    (lambda: transformer(norm=None), "1e-06"),
])  # fmt: skip
def test_no_equal(model, received, tmp_path):
    with refused("no equivalent", received) as error:
        to_hugging_face(model(), tmp_path / "out")
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_outputs_after_the_way_there_and_back(tmp_path):
    model = built(Bert(**SIZES, **ROBERTA, max_length=9))
    to_hugging_face(model, tmp_path)
    given = ids(pad_id=1) % 20
    again = from_pretrained(tmp_path)
    np.testing.assert_array_equal(array(model(given)["sequence_output"]), array(again(given)["sequence_output"]))


@pytest.fixture(scope="module", params=[True, False], ids=["one vocabulary", "two"])
def pair(request, tmp_path_factory):
    return translators.pair_of(tmp_path_factory.mktemp("pair"), request.param)


def leave(model, pair, folder):
    to_hugging_face(model, folder, source_tokenizer=pair.source, target_tokenizer=pair.target)


@pytest.mark.parametrize("arguments", [
    {}, dict(norm=keras.layers.LayerNormalization(epsilon=1e-5)), dict(positions=SinusoidalPositions(False)),
    dict(normalization="pre"), dict(normalization="pre", positions=LearnedPositions(40), output_bias=True),
    dict(tie_output=False, positions=None), dict(normalization="pre", tie_output=False, output_bias=True),
    dict(attention="interacting", normalization="pre"), dict(attention=GroupedQueryAttention(4, 8)),
])  # fmt: skip
def test_transformers_with_tokenizers(pair, arguments, tmp_path):
    """The same logits, and with PyTorch's epsilon the same weights, token ids and start of a translation."""
    model = translators.transformer(pair, **arguments)
    if arguments.get("normalization") == "pre" and model.target_vocabulary_size:
        with refused("to_ctranslate2", "vocabularies of 34, 36"):
            leave(model, pair, tmp_path / "out")
        assert not list(tmp_path.iterdir())
        return
    leave(model, pair, tmp_path)
    again, tokenizers = from_pretrained(tmp_path), tokenizer_of(tmp_path)
    inputs = {"source": np.array(pair.source(translators.ENGLISH)), "target": np.array(pair.target(translators.GERMAN))}
    np.testing.assert_allclose(array(model(inputs)), array(again(inputs)), atol=1e-5)
    np.testing.assert_array_equal(tokenizers.source(translators.ENGLISH), inputs["source"])
    np.testing.assert_array_equal(tokenizers.target(translators.GERMAN), inputs["target"])
    assert tokenizers.target.bos_id == pair.target.bos_id == generation_settings(tmp_path)["start_id"]
    if "norm" in arguments:
        kernel = model.decoder_blocks[1].attentions["cross_attention"].weights[0]
        np.testing.assert_array_equal(
            array(kernel), array(again.decoder_blocks[1].attentions["cross_attention"].weights[0])
        )


@pytest.mark.parametrize("arguments, received", [
    (dict(attention="evolving"), "EvolvingAttention in"),
    (dict(relative_positions=RotaryPositions()), "relative_positions="),
    (dict(attention=MultiHeadAttention(4, 12)), "num_heads=4, key_dim=12"),
    (dict(norm=keras.layers.RMSNormalization()), "RMSNormalization"),
    (dict(cross_attention=MultiHeadAttention(2, 16)), "heads [2, 4]"),
    (dict(activation="elu"), "activation=elu"),
    (dict(normalization="sandwich"), "normalization='sandwich'"),
])  # fmt: skip
def test_no_equal_with_tokenizers(pair, arguments, received, tmp_path):
    with refused("no equivalent", received):
        leave(translators.transformer(pair, **arguments), pair, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_tokenizers_that_do_not_fit(pair, tmp_path):
    model, proto = translators.transformer(pair), pair.source.get_config()["proto"]
    more = f"with {pair.source.vocabulary_size + 2}"
    for options, received in [({"lowercase": True}, "lowercase=True"), ({"num_sentinels": 2}, more)]:
        tokenizer = SentencePieceTokenizer(proto, **options)
        with refused("source_tokenizer", received):
            to_hugging_face(model, tmp_path / "out", source_tokenizer=tokenizer, target_tokenizer=pair.target)
    with refused("target_tokenizer", "target_tokenizer=None"):
        to_hugging_face(model, tmp_path / "out", source_tokenizer=pair.source)
    with refused("tokenizers", "model="):
        leave(Bert(**SIZES), pair, tmp_path / "out")
    assert not list(tmp_path.iterdir())
