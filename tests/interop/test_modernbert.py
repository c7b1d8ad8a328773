"""ModernBERT's folders in and out, without the library that writes them; test_live_modernbert.py has it."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_headattn.interop import from_pretrained, to_hugging_face
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import Bert, EncoderClassifier, MaskedLM, SpanAnswerer, TokenClassifier
from tests.interop.folders import numbers
from tests.layers.harness import array, randomize
from tests.models.encoders import make
from tests.refusals import refused

VOCABULARY, WIDTH, INNER, LAYERS = 30, 8, 12, 4
# As in the folders of the hub, and as transformers 5 writes it.
OLD = dict(
    model_type="modernbert", architectures=["ModernBertForMaskedLM"], vocab_size=VOCABULARY, hidden_size=WIDTH,
    intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=2, attention_bias=False,
    attention_dropout=0.0, bos_token_id=1, classifier_activation="gelu", classifier_bias=False, classifier_dropout=0.0,
    classifier_pooling="mean", cls_token_id=1, decoder_bias=True, deterministic_flash_attn=False,
    embedding_dropout=0.0, eos_token_id=2, global_attn_every_n_layers=3, global_rope_theta=160000.0,
    gradient_checkpointing=False, hidden_activation="gelu", initializer_cutoff_factor=2.0, initializer_range=0.02,
    layer_norm_eps=1e-05, local_attention=128, local_rope_theta=10000.0, max_position_embeddings=8192, mlp_bias=False,
    mlp_dropout=0.0, norm_bias=False, norm_eps=1e-05, pad_token_id=3, position_embedding_type="absolute",
    sep_token_id=2, tie_word_embeddings=True, torch_dtype="float32", transformers_version="4.47.0.dev0",
)  # fmt: skip
FULL, SLIDING = "full_attention", "sliding_attention"
ROPE = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in ((FULL, 160000.0), (SLIDING, 10000.0))}
KEYS_OF_OLD = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta", "layer_norm_eps", "torch_dtype")
NEW = {key: value for key, value in OLD.items() if key not in KEYS_OF_OLD}
NEW |= dict(layer_types=[FULL, SLIDING, SLIDING, FULL], rope_parameters=ROPE, sparse_prediction=False, dtype="float32")


def state():
    shapes = {"embeddings.tok_embeddings.weight": (VOCABULARY, WIDTH), "embeddings.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"layers.{i}.attn_norm.weight": (WIDTH,)} if i else {}
        shapes |= {f"layers.{i}.attn.Wqkv.weight": (3 * WIDTH, WIDTH), f"layers.{i}.attn.Wo.weight": (WIDTH, WIDTH)}
        shapes |= {f"layers.{i}.mlp.Wi.weight": (2 * INNER, WIDTH), f"layers.{i}.mlp.Wo.weight": (WIDTH, INNER)}
        shapes[f"layers.{i}.mlp_norm.weight"] = (WIDTH,)
    shapes = {f"model.{name}": shape for name, shape in (shapes | {"final_norm.weight": (WIDTH,)}).items()}
    head = {"head.dense.weight": (WIDTH, WIDTH), "head.norm.weight": (WIDTH,), "decoder.bias": (VOCABULARY,)}
    return numbers(shapes | head | {"classifier.weight": (3, WIDTH), "classifier.bias": (3,)})


def write(folder, config, **changes):
    save_file(state(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


@pytest.mark.parametrize("config", [OLD, NEW], ids=["old", "new"])
def test_each_tensor_in_its_place(config, tmp_path):
    head = from_pretrained(write(tmp_path, config), head="classifier")
    tensors, model = state(), head.encoder
    parts = np.split(tensors["model.layers.2.attn.Wqkv.weight"], 3)
    for name, part in zip(("query", "key", "value"), parts, strict=True):
        dense = getattr(model.blocks[2].attention, f"{name}_dense")
        np.testing.assert_array_equal(array(dense.kernel).reshape(WIDTH, WIDTH), part.T)
    inner, gate = np.split(tensors["model.layers.1.mlp.Wi.weight"], 2)
    np.testing.assert_array_equal(array(model.blocks[1].feed_forward.inner.kernel), inner.T)
    np.testing.assert_array_equal(array(model.blocks[1].feed_forward.gate.kernel), gate.T)
    np.testing.assert_array_equal(array(model.final_norm.gamma), tensors["model.final_norm.weight"])
    np.testing.assert_array_equal(array(head.output_projection.bias), tensors["classifier.bias"])
    assert [block.attention.sliding_window for block in model.blocks] == [None, 65, 65, None]
    bases = [block.attention.relative_positions.max_wavelength for block in model.blocks]
    assert bases == [160_000, 10_000, 10_000, 160_000]
    assert (model.pad_id, head.pooling, head.kind) == (3, "mean", "modernbert")


@pytest.mark.parametrize("attention", ["talking_heads", "grouped_query", "evolving"])
def test_any_attention(attention, tmp_path):
    model, report = from_pretrained(write(tmp_path, OLD), attention=attention, return_report=True)
    assert len(report.copied) == 9 * LAYERS - 1 + 3  # the first block has a norm less
    assert np.isfinite(array(model(np.array([[1, 5, 6, 2]]))["sequence_output"])).all()


@pytest.mark.parametrize("changes, name, received", [
    (dict(norm_bias=True), "norm_bias", "'norm_bias': True"),
    (dict(decoder_bias=False), "decoder_bias", ""),
    (dict(classifier_activation="relu"), "classifier_activation", "'relu'"),
    (dict(layer_types=[SLIDING, FULL, SLIDING, SLIDING]), "layer_types", [SLIDING, FULL, SLIDING, SLIDING]),
    (dict(rope_parameters={FULL: {"rope_type": "yarn"}}), "rope_parameters", "yarn"),
    (dict(rope_parameters=[1]), "rope_parameters", "[1]"),
    (dict(rope_parameters={FULL: 5}), "rope_parameters", {FULL: 5}),
    (dict(rope_parameters={FULL: {"rope_type": "default", "rope_theta": "x"}}), "rope_theta", "'x'"),
    (dict(layer_types=5), "layer_types", "5"),
    (dict(num_hidden_layers=5), "nothing was copied", "missing: layers.4.attn.query.weight"),
    (dict(hidden_size=16), "nothing was copied", "embeddings.tok_embeddings.weight (30, 8), not (30, 16)"),
    (dict(rope_scaling=3), "ignore=['rope_scaling']", "rope_scaling=3"),
])  # fmt: skip
def test_refused(changes, name, received, tmp_path):
    with refused(name, received):
        from_pretrained(write(tmp_path, OLD, **changes))


def test_an_output_layer_of_its_own_is_refused(tmp_path):
    write(tmp_path, OLD)
    tensors = state()
    save_file(
        tensors | {"decoder.weight": tensors["model.embeddings.tok_embeddings.weight"]}, tmp_path / "model.safetensors"
    )
    from_pretrained(tmp_path, head="masked_lm")
    save_file(tensors | {"decoder.weight": np.zeros((VOCABULARY, WIDTH), "float32")}, tmp_path / "model.safetensors")
    with refused("embedding", "another decoder.weight"):
        from_pretrained(tmp_path, head="masked_lm")


WITH_HEADS = {
    None: lambda model: model,
    "masked_lm": MaskedLM,
    "classifier": lambda model: EncoderClassifier(model, 3, "modernbert", pooling="mean"),
    "token_classifier": lambda model: TokenClassifier(model, 3),
    "span_answerer": SpanAnswerer,
}


@pytest.mark.parametrize("head", WITH_HEADS)
@pytest.mark.parametrize("use_bias", [False, True])
def test_out_and_in(head, use_bias, tmp_path):
    model = WITH_HEADS[head](make("modernbert", use_bias=use_bias, sliding_window=3))
    if head:
        model.build()
        randomize(model)
    to_hugging_face(model, tmp_path)
    same = from_pretrained(tmp_path, head=head)
    ids = np.array([[4, 7, 2, 9, 1, 1], [2, 3, 4, 5, 6, 7]])
    for ours, theirs in zip(model.get_weights(), same.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    first, second = (each(ids) if head else each(ids)["sequence_output"] for each in (model, same))
    np.testing.assert_array_equal(array(first), array(second))
    assert "layers.0.attn_norm.weight" not in load_file(tmp_path / "model.safetensors")


@pytest.mark.parametrize("arguments, received", [
    (dict(sliding_window=1), "sliding_window=1"),
    (dict(attention=MultiHeadAttention(2, 6, sliding_window=3)), "sliding_window=3 in block_0"),
    (dict(attention="talking_heads"), "TalkingHeadsAttention"),
])  # fmt: skip
def test_no_equal(arguments, received, tmp_path):
    with refused("no equivalent", received):
        to_hugging_face(make("modernbert", **arguments), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_is_not_the_other(tmp_path):
    for model, kind in ((Bert(9, 8, 8, 1, 2, pooler=False), "modernbert"), (make("modernbert"), "bert")):
        with refused("no equivalent", f"model_type={kind!r} of a {type(model).__name__}"):
            to_hugging_face(model, tmp_path, model_type=kind)
    with refused("no equivalent", "max_length=0"):
        to_hugging_face(Bert(9, 8, 8, 1, 2, max_length=0, pooler=False), tmp_path)
