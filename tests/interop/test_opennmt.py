"""Checkpoints of OpenNMT-tf 2, of its names and with the sharing of embeddings that it has."""

import numpy as np
import pytest

from keras_headattn.interop import from_opennmt, read_tensors
from tests.interop.folders import numbers, save_tensorflow
from tests.layers.harness import array
from tests.refusals import refused

END = "/.ATTRIBUTES/VARIABLE_VALUE"
WIDTH, INNER, SOURCE, TARGET = 8, 12, 11, 13


def norm(name):
    return {f"{name}/gamma": (WIDTH,), f"{name}/beta": (WIDTH,)}


def dense(name, inputs, outputs):
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def checkpoint(share="none", pre_norm=True, layers=2):
    """Names of the attributes of OpenNMT-tf's `Transformer`. What is shared is written once."""
    own = "input_layer_norm" if pre_norm else "output_layer_norm"
    shapes = {}
    for side in ("encoder", "decoder"):
        shapes |= norm(f"model/{side}/layer_norm") if pre_norm else {}
        for number in range(layers):
            prefix = f"model/{side}/layers/{number}"
            for part in ["self_attention"] + ["attention/0"] * (side == "decoder"):
                for name in ("queries", "keys", "values", "output"):
                    shapes |= dense(f"{prefix}/{part}/layer/linear_{name}", WIDTH, WIDTH)
                shapes |= norm(f"{prefix}/{part}/{own}")
            shapes |= dense(f"{prefix}/ffn/layer/inner", WIDTH, INNER) | dense(
                f"{prefix}/ffn/layer/outer", INNER, WIDTH
            )
            shapes |= norm(f"{prefix}/ffn/{own}")
    shapes |= dense("model/decoder/output_layer", WIDTH, TARGET)
    embeddings = "model/examples_inputter/{}_inputter/embedding"
    shapes[embeddings.format("features")] = (TARGET if share == "all" else SOURCE, WIDTH)
    if share != "all":
        shapes[embeddings.format("labels")] = (TARGET, WIDTH)
    if share != "none":
        del shapes["model/decoder/output_layer/kernel"]
    return numbers({f"{name}{END}": shape for name, shape in shapes.items()})


def write(folder, tensors):
    slots = {name.replace(END, f"/.OPTIMIZER_SLOT/optimizer/m{END}"): tensor for name, tensor in tensors.items()}
    save_tensorflow(folder / "ckpt-20", tensors | slots | {f"save_counter{END}": np.int64(1)})
    return folder


@pytest.mark.parametrize("share, pre_norm", [("none", True), ("target", True), ("all", True), ("none", False)])
def test_transformers(share, pre_norm, tmp_path):
    given = checkpoint(share, pre_norm)
    model, report = from_opennmt(write(tmp_path, given), num_heads=2, return_report=True)
    assert len(report.copied) == len(given) and not report.initialised
    assert model.tie_output == (share != "none") and (model.normalization == "pre") == pre_norm
    assert (model.target_vocabulary_size is None) == (share == "all")
    kernel = given[f"model/decoder/layers/1/attention/0/layer/linear_keys/kernel{END}"]
    np.testing.assert_array_equal(array(model.decoder_blocks[1].cross_attention.key_dense.kernel).reshape(8, 8), kernel)
    inputs = {"source": np.array([[3, 4, 2, 0]]), "target": np.array([[1, 5, 6]])}
    assert np.isfinite(array(model(inputs))).all()


def test_relative_positions_are_refused(tmp_path):
    name = f"model/encoder/layers/0/self_attention/layer/relative_position_keys{END}"
    with refused("nothing was copied", "left over: model/encoder/layers/0/self_attention/layer/relative_position_keys"):
        from_opennmt(write(tmp_path, checkpoint() | {name: np.zeros((41, 4), "float32")}), num_heads=2)


def test_another_model(tmp_path):
    save_tensorflow(tmp_path / "ckpt-1", {f"model/dense/kernel{END}": np.zeros((2, 2), "float32")})
    with refused("OpenNMT-tf", tmp_path):
        from_opennmt(tmp_path)
    assert list(read_tensors(tmp_path)) == ["model/dense/kernel"]
