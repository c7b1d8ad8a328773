"""Both networks of ELECTRA, in Google's layout and in Hugging Face's, in and out."""

import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest

from keras_headattn.interop import from_electra, from_pretrained, read_tensors, to_electra, to_hugging_face
from keras_headattn.models import Bert, ElectraPretraining, MaskedLM, ReplacedTokenDetector
from tests.interop.folders import numbers, save_tensorflow
from tests.layers.harness import array
from tests.models.electra import MASK, SPECIAL, make
from tests.refusals import refused

SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared"))
FOLDER = SHARED / "golden" / "electra_ckpt"
needs_checkpoints = pytest.mark.skipif(not FOLDER.exists(), reason=f"needs the checkpoints in {FOLDER}")
GOOGLE = dict(num_heads=3, generator_arguments={"num_heads": 1})
LAYOUTS = {
    "google": lambda **arguments: from_electra(FOLDER, MASK, SPECIAL, **GOOGLE, **arguments),
    "hugging_face": lambda **arguments: from_electra(
        FOLDER / "hf_discriminator", MASK, SPECIAL, FOLDER / "hf_generator", **arguments
    ),
}


def check_outputs(data, generator, discriminator):
    inputs = {"token_ids": data["masked_input_ids"], "segment_ids": data["segment_ids"]}
    found = array(generator({**inputs, "mask_positions": data["masked_lm_positions"]}))
    np.testing.assert_allclose(found, data["generator_logits_f64"], atol=1e-5)
    found = array(keras.ops.sigmoid(discriminator({**inputs, "token_ids": data["replaced_ids"]})))
    is_real = data["input_mask"] > 0
    np.testing.assert_allclose(found[is_real], data["disc_probs_f64"][is_real], atol=1e-5)


@needs_checkpoints
@pytest.mark.parametrize("layout", LAYOUTS)
def test_checkpoints(layout, golden):
    """The outputs of the original program."""
    model, reports = LAYOUTS[layout](return_report=True)
    check_outputs(golden("electra_pretraining.npz"), model.generator, model.discriminator)
    assert not any(report.initialised for report in reports.values())
    assert (
        len(reports["generator"].copied) == 5 + 2 + 2 * 16 + 5
        and len(reports["discriminator"].copied) == 5 + 2 + 32 + 4
    )
    assert model.discriminator.encoder.blocks[0].attention.kernel_initializer.stddev == 0.02
    assert model.discriminator.encoder.activation == "gelu" and model.generator.encoder.norm_epsilon == 1e-12


@needs_checkpoints
def test_one_network(golden):
    """Of Google's checkpoint by itself."""
    generator = from_pretrained(FOLDER, head="masked_lm", num_heads=1)
    discriminator = from_pretrained(FOLDER, head="replaced_token", num_heads=3)
    check_outputs(golden("electra_pretraining.npz"), generator, discriminator)
    assert from_pretrained(FOLDER, num_heads=3).hidden_dim == 24


@needs_checkpoints
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_again(layout, tmp_path):
    """The tensors of both layouts, whichever the model came from."""
    model = LAYOUTS[layout]()
    to_electra(model, tmp_path / "google" / "model.ckpt-1")
    found, given = read_tensors(tmp_path / "google" / "model.ckpt-1"), read_tensors(FOLDER / "model.ckpt-7")
    given = {name: x for name, x in given.items() if "adam_" not in name and name != "global_step"}
    assert found.keys() == given.keys() and len(given) == 82
    for name, tensor in given.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    to_hugging_face(model, tmp_path / "hf")
    for part in ("generator", "discriminator"):
        found, given = (read_tensors(folder) for folder in (tmp_path / "hf" / part, FOLDER / f"hf_{part}"))
        given.pop("generator_lm_head.weight", None)
        assert found.keys() == given.keys()
        for name, tensor in given.items():
            np.testing.assert_array_equal(found[name], tensor, err_msg=name)
        folders = tmp_path / "hf" / part, FOLDER / f"hf_{part}"
        found, given = (json.loads((folder / "config.json").read_text()) for folder in folders)
        assert {name: found.get(name, given[name]) for name in given} == given


def interrupted(source, target):
    raise KeyboardInterrupt


def test_there_and_back(tmp_path, monkeypatch):
    """Without a projection of the generator's embeddings, which are as wide as itself; with another attention."""
    model = make(embedding_dim=6)
    model.build()
    assert model.generator.encoder.embedding_projection is None
    to_electra(model, tmp_path / "model.ckpt")
    arguments = dict(
        num_heads=3, generator_arguments={"num_heads": 1, "attention": "talking_heads"}, attention="evolving"
    )
    to_electra(model, tmp_path / "model.ckpt")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        to_electra(model, tmp_path / "model.ckpt")
    with pytest.raises(FileNotFoundError, match="Received: "):  # no index of the old with data of the new
        from_electra(tmp_path / "model.ckpt", MASK, SPECIAL)
    to_electra(model, tmp_path / "model.ckpt")
    again, reports = from_electra(tmp_path / "model.ckpt", MASK, SPECIAL, return_report=True, **arguments)
    assert reports["discriminator"].initialised == ["block_1/attention/map_kernel", "block_1/attention/map_bias"]
    assert len(reports["generator"].initialised) == 4
    paths = {weight.path.split("/", 1)[1]: array(weight) for weight in again.weights}
    for weight in model.weights:
        np.testing.assert_array_equal(paths[weight.path.split("/", 1)[1]], array(weight), err_msg=weight.path)


def test_other_names_of_encoders(tmp_path):
    """Embeddings are found although they are another encoder's."""
    sizes = dict(vocabulary_size=11, hidden_dim=8, intermediate_dim=8, num_layers=1, num_heads=2, pooler=False)
    large = ReplacedTokenDetector(Bert(**sizes, name="large"))
    small = MaskedLM(Bert(**sizes, embeddings=large.encoder, name="small"))
    model = ElectraPretraining(small, large, MASK, SPECIAL)
    model.build()
    to_hugging_face(model, tmp_path)
    again = from_electra(tmp_path / "discriminator", MASK, SPECIAL, tmp_path / "generator")
    for ours, found in zip(model.generator.get_weights(), again.generator.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, found)


def test_refused(tmp_path):
    model = make()
    to_hugging_face(model, tmp_path / "hf")
    discriminator, generator = tmp_path / "hf" / "discriminator", tmp_path / "hf" / "generator"
    with refused("generator_path", discriminator):
        from_electra(discriminator, MASK, SPECIAL)
    other = make()
    to_hugging_face(other, tmp_path / "other")
    with refused("embeddings", "other ['embeddings.position_embeddings.weight'"):
        from_electra(discriminator, MASK, SPECIAL, tmp_path / "other" / "generator")
    shutil.rmtree(generator)
    with refused("path", generator, FileNotFoundError):
        from_electra(discriminator, MASK, SPECIAL, generator)
    evolving = make(attention="evolving")
    for write in (to_electra, to_hugging_face):
        with refused("no equivalent", "EvolvingAttention in"):
            write(evolving, tmp_path / "none" / "model")
    with refused("model", "MaskedLM"):
        to_electra(model.generator, tmp_path / "none" / "model")
    assert not (tmp_path / "none").exists()


def test_layout_of_electra_small_rma(tmp_path):
    """Names and shapes of bangann/Repulsive-Attention's `run_pretraining_svgd.py`, of two layers and fewer words.

    Its heads repel each other in the optimizer, which adds no variable to those of ELECTRA-Small.
    """
    shapes = {"electra/embeddings/word_embeddings": (110, 128), "electra/embeddings/token_type_embeddings": (2, 128)}
    shapes |= {"electra/embeddings/position_embeddings": (512, 128), "generator_predictions/output_bias": (110,)}

    def dense(name, inputs, outputs):
        shapes.update({f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)})

    def norm(name, width):
        shapes.update({f"{name}/LayerNorm/{leaf}": (width,) for leaf in ("beta", "gamma")})

    norm("electra/embeddings", 128)
    for network, width in (("electra", 256), ("generator", 64)):
        dense(f"{network}/embeddings_project", 128, width)
        for layer in (f"{network}/encoder/layer_{i}" for i in range(2)):
            for name in ("self/query", "self/key", "self/value", "output/dense"):
                dense(f"{layer}/attention/{name}", width, width)
            norm(f"{layer}/attention/output", width)
            dense(f"{layer}/intermediate/dense", width, 4 * width)
            dense(f"{layer}/output/dense", 4 * width, width)
            norm(f"{layer}/output", width)
    dense("generator_predictions/dense", 64, 128)
    norm("generator_predictions", 128)
    dense("discriminator_predictions/dense", 256, 256)
    dense("discriminator_predictions/dense_1", 256, 1)
    given = numbers(shapes)
    slots = {f"{name}/adam_{moment}": np.zeros_like(x) for name, x in given.items() for moment in "mv"}
    save_tensorflow(tmp_path / "model.ckpt-1000000", given | slots | {"global_step": np.int64(1_000_000)})
    model, reports = from_electra(tmp_path, 103, (101, 102), return_report=True)
    assert not any(report.initialised for report in reports.values())
    assert [head.encoder.num_heads for head in (model.discriminator, model.generator)] == [4, 1]
    to_electra(model, tmp_path / "again" / "model.ckpt-1")
    found = read_tensors(tmp_path / "again" / "model.ckpt-1")
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    assert from_pretrained(tmp_path, head="replaced_token").encoder.num_heads == 4
