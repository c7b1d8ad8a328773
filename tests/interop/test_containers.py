"""Files of tensors, whole and damaged."""

import json
import pickle

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_headattn.interop import read_tensors
from tests.interop.folders import numbers, save_tensorflow

TENSORS = numbers({"a.weight": (3, 2), "b.bias": (4,)})


def check(found, expected=TENSORS):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name], "float32"), np.asarray(tensor, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_safetensors(dtype, tmp_path):
    tensors = {name: tensor.astype(dtype) for name, tensor in TENSORS.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    found = read_tensors(tmp_path)
    assert found["a.weight"].dtype == dtype
    check(found, tensors)


def write_parts(folder):
    for number, (name, tensor) in enumerate(TENSORS.items()):
        save_file({name: tensor}, folder / f"model-{number}.safetensors")
    names = {name: f"model-{number}.safetensors" for number, name in enumerate(TENSORS)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_parts(tmp_path):
    write_parts(tmp_path)
    check(read_tensors(tmp_path))


def test_a_part_is_missing(tmp_path):
    write_parts(tmp_path)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks parts. Received: .* without model-1.safetensors$"):
        read_tensors(tmp_path)


def test_h5(tmp_path):
    import h5py

    with h5py.File(tmp_path / "tf_model.h5", "w") as file:
        for name, tensor in TENSORS.items():
            file[f"layer/{name}:0"] = tensor
    check({name.removeprefix("layer/"): tensor for name, tensor in read_tensors(tmp_path).items()})


def test_tensorflow(tmp_path):
    save_tensorflow(tmp_path / "ckpt-7", TENSORS)
    for path in (tmp_path, tmp_path / "ckpt-7", tmp_path / "ckpt-7.index"):
        check(read_tensors(path))


def test_the_latest_of_tensorflow(tmp_path):
    save_tensorflow(tmp_path / "ckpt-7", TENSORS)
    save_tensorflow(tmp_path / "ckpt-5", {"other": np.zeros(1, "float32")})
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/ckpt-7"\nall: "ckpt-5"\n')
    check(read_tensors(tmp_path))


def flax_array(msgpack, array):
    dtype = array.dtype.name
    return msgpack.ExtType(1, msgpack.packb((array.shape, dtype, array.tobytes())))


def test_t5x(tmp_path):
    msgpack = pytest.importorskip("msgpack")
    a, b = TENSORS.values()
    chunks = {str(number): flax_array(msgpack, part) for number, part in enumerate(np.split(a.ravel(), 2))}
    shape = {str(number): size for number, size in enumerate(a.shape)}
    tree = {"a.weight": {"__msgpack_chunked_array__": True, "shape": shape, "chunks": chunks}}
    half = b.astype(ml_dtypes.bfloat16)
    (tmp_path / "checkpoint").write_bytes(msgpack.packb({**tree, "version": 3, "b.bias": flax_array(msgpack, half)}))
    check(read_tensors(tmp_path), {"a.weight": a, "b.bias": half})


def test_torch(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({name: torch.tensor(tensor) for name, tensor in TENSORS.items()}, tmp_path / "pytorch_model.bin")
    check(read_tensors(tmp_path))


class Harmful:
    def __reduce__(self):
        return print, ("this must not run",)


def test_a_pickle(tmp_path, capsys):
    pytest.importorskip("torch")
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Harmful()}))
    with pytest.raises(ValueError, match="or a pickle of more than tensors") as error:
        read_tensors(tmp_path)
    assert "\n" not in str(error.value) and not capsys.readouterr().out


def test_a_pickle_of_another_name(tmp_path):
    (tmp_path / "model.pt").write_bytes(pickle.dumps(TENSORS))
    with pytest.raises(ValueError, match="Received: model.pt, a pickle, which can run any program"):
        read_tensors(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match=r"A checkpoint is model.safetensors, .* Received: "):
        read_tensors(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No such checkpoint. Received: .*nowhere"):
        read_tensors(tmp_path / "nowhere")


@pytest.mark.parametrize("kept", [3, 40, -5])
@pytest.mark.parametrize("name", ["model.safetensors", "tf_model.h5", "ckpt.index", "checkpoint"])
def test_cut_off(name, kept, tmp_path):
    """One line each, which names the file."""
    if name == "checkpoint":
        msgpack = pytest.importorskip("msgpack")
        (tmp_path / name).write_bytes(
            msgpack.packb({"target": {n: flax_array(msgpack, t) for n, t in TENSORS.items()}})
        )
    elif name == "ckpt.index":
        save_tensorflow(tmp_path / "ckpt", TENSORS)
    elif name == "tf_model.h5":
        import h5py

        with h5py.File(tmp_path / name, "w") as file:
            file["layer/kernel:0"] = TENSORS["a.weight"]
    else:
        save_file(TENSORS, tmp_path / name)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="Received: ") as error:
        read_tensors(tmp_path)
    assert "\n" not in str(error.value) and path.stem in str(error.value)
