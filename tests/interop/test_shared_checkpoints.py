"""Every checkpoint that comes with expected outputs, layout by layout; real positions only."""

import os
import pathlib

import numpy as np
import pytest

from keras_headattn import text
from keras_headattn.interop import from_pretrained, read_tensors, to_hugging_face, tokenizer_of
from tests.layers.harness import array

SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared"))
DATA = SHARED / "data"
TINY = DATA / "ckpt_hf_tiny"
if not TINY.exists():
    pytest.skip(f"needs the checkpoints in {TINY}", allow_module_level=True)


def expected(folder):
    with np.load(folder / "expected.npz") as file:
        return {name: file[name] if file[name].dtype.kind != "i" else file[name].astype("int32") for name in file}


def check(found, given, mask=None):
    """To 1e-4 of the largest number: processors round differently, and logits of T5 add up what they round."""
    real = np.ones(given.shape[:2], bool) if mask is None else mask.astype(bool)
    np.testing.assert_allclose(array(found)[real], given[real], rtol=1e-4, atol=1e-4 * max(1, np.abs(given).max()))


@pytest.mark.parametrize("name", ["bert", "roberta", "electra"])
def test_encoders(name):
    given = expected(TINY / name)
    segments = {"segment_ids": given["segments"]} if "segments" in given else {}
    inputs = {"token_ids": given["ids"], **segments}
    outputs = from_pretrained(TINY / name)(inputs)
    check(outputs["sequence_output"], given["hidden"], given["mask"])
    if "pooled" in given:
        check(outputs["pooled_output"], given["pooled"][:, None][:, 0])
    head, key = ("replaced_token", "replaced_logits") if name == "electra" else ("masked_lm", "mlm_logits")
    check(from_pretrained(TINY / name, head=head)(inputs), given[key], given["mask"])


@pytest.mark.parametrize("name", ["t5", "t5_v1_1"])
def test_t5(name):
    given = expected(TINY / name)
    model = from_pretrained(TINY / name)
    check(model.encode(given["ids"]), given["encoder_hidden"], given["mask"])
    check(model({"source": given["ids"], "target": given["decoder_ids"]}), given["logits"])


def test_torch_file_is_the_same(tmp_path):
    pytest.importorskip("torch")
    found, same = (read_tensors(TINY / "bert" / name) for name in ("pytorch_model.bin", "model.safetensors"))
    assert same.keys() <= found.keys()
    assert all(np.array_equal(found[name], tensor) for name, tensor in same.items())


@pytest.mark.parametrize("name", ["bert", "roberta", "electra", "t5", "t5_v1_1"])
def test_out_and_in_again(name, tmp_path):
    model = from_pretrained(TINY / name)
    to_hugging_face(model, tmp_path)
    for ours, again in zip(model.weights, from_pretrained(tmp_path).weights, strict=True):
        np.testing.assert_array_equal(array(ours), array(again))
    there, here = read_tensors(TINY / name), read_tensors(tmp_path)
    there = {key.removeprefix(f"{name}."): tensor for key, tensor in there.items()}
    folded = {"embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"}
    for key in here.keys() - (folded if name == "roberta" else set()):
        np.testing.assert_array_equal(here[key], there[key])


def test_real_weights():
    """all-MiniLM-L6-v2, in float16."""
    folder = DATA / "ckpt_minilm_l6_bert"
    given = expected(folder)
    model, report = from_pretrained(folder, return_report=True)
    assert model.count_params() == 22_713_216 and report.left_over == ["embeddings.position_ids"]
    outputs = model(given["ids"])
    check(outputs["sequence_output"], given["hidden"], given["mask"])
    check(outputs["pooled_output"], given["pooled"])


def test_true_names_of_tensorflow_1():
    model, report = from_pretrained(DATA / "ckpt_keras_bert_tiny_tf1", return_report=True)
    tensors = read_tensors(DATA / "ckpt_keras_bert_tiny_tf1")
    assert len(report.copied) == 39 and all(name.startswith("cls.") for name in report.left_over)
    name = "bert/encoder/layer_1/attention/self/value/kernel"
    np.testing.assert_array_equal(array(model.blocks[1].attention.value_dense.kernel).reshape(4, 4), tensors[name])
    assert from_pretrained(DATA / "ckpt_keras_bert_tiny_tf1", head="masked_lm").built


def test_true_names_of_t5x():
    pytest.importorskip("msgpack")
    model, report = from_pretrained(DATA / "ckpt_t5x_tiny", return_report=True)
    tensors = read_tensors(DATA / "ckpt_t5x_tiny")
    assert len(report.copied) == 52 and not report.left_over and model.gated and not model.tie_output
    kernel = tensors["optimizer/target/decoder/layers_1/encoder_decoder_attention/query/kernel"]
    found = model.decoder_blocks[1].cross_attention.query_dense.kernel
    np.testing.assert_array_equal(array(found).reshape(kernel.shape), kernel)


def test_tokenizer_of_real_weights():
    """The ids of all texts, and one that is longer than the others."""
    if not hasattr(text, "WordPieceTokenizer"):
        pytest.skip("needs keras_headattn.text.WordPieceTokenizer")
    folder = DATA / "ckpt_minilm_l6_bert"
    with np.load(folder / "expected.npz") as file:
        texts, ids = [str(line) for line in file["texts"]], file["ids"]
    np.testing.assert_array_equal(tokenizer_of(folder)(texts), ids)
