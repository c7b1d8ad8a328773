"""Files of tensors, whole and damaged."""

import json
import os
import pathlib
import pickle

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_headattn.interop import read_tensors
from tests.interop.folders import numbers, save_tensorflow
from tests.refusals import refused

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
    with refused("parts", "without model-1.safetensors", FileNotFoundError):
        read_tensors(tmp_path)


@pytest.mark.parametrize("index", [
    "[]", "null", '{"weight_map": null}', '{"weight_map": ["a"]}', '{"weight_map": {"a": 5}}',
    '{"weight_map": {"a": ""}}', '{"weight_map": {"a": null}}', '{"weight_map": {"a": "model.safetensors.index.json"}}',
    '{"weight_map": {"a": "../other.safetensors"}}', '{"weight_map": {"a": "FOLDER/other.safetensors"}}',
    '{"weight_map": {"a": "folder.safetensors"}}', '{"weight_map": {"a": {}}}', "[" * 100_000,
])  # fmt: skip
def test_a_damaged_index(index, tmp_path):
    """Nothing outside of the folder is read, nor the index once more."""
    save_file(TENSORS, tmp_path / "other.safetensors")
    folder = tmp_path / "folder"
    (folder / "folder.safetensors").mkdir(parents=True)
    save_file(TENSORS, folder / "other.safetensors")
    (folder / "model.safetensors.index.json").write_text(index.replace("FOLDER", str(tmp_path)))
    check_refused(folder, "model.safetensors" if "folder." not in index else "folder.safetensors")


def check_refused(path, name, told="Received: "):
    """One line, which names the file."""
    with pytest.raises(ValueError, match=told) as error:
        read_tensors(path)
    message = str(error.value)
    assert "\n" not in message and name in message.partition("Received: ")[2]


def test_a_part_in_a_folder_below(tmp_path):
    (tmp_path / "parts").mkdir()
    save_file(TENSORS, tmp_path / "parts" / "a.safetensors")
    index = {"weight_map": dict.fromkeys(TENSORS, "parts/a.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    check(read_tensors(tmp_path))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "tf_model.h5", "a.index", "a.ckpt"])
@pytest.mark.parametrize("make", [pathlib.Path.mkdir, os.mkfifo])
def test_folders_and_pipes_in_the_place_of_files(name, make, tmp_path):
    make(tmp_path / name)
    if name == "pytorch_model.bin":
        pytest.importorskip("torch")
    if name == "a.ckpt":
        save_tensorflow(tmp_path / "a.ckpt", TENSORS)
        (tmp_path / "a.ckpt.data-00000-of-00001").unlink()
        make(tmp_path / "a.ckpt.data-00000-of-00001")
    check_refused(tmp_path, name, "a folder, a pipe or a device")


def write_h5(folder, **data_set):
    import h5py

    with h5py.File(folder / "tf_model.h5", "w") as file:
        file["bias"] = TENSORS["b.bias"]
        return file.create_dataset("kernel", **data_set)


def test_h5_does_not_read_other_files(tmp_path):
    import h5py

    (tmp_path / "secret").write_bytes(b"0123456789")
    write_h5(tmp_path, shape=(10,), dtype="uint8", external=[(str(tmp_path / "secret"), 0, 10)])
    check_refused(tmp_path, "tf_model.h5", "must be in the file itself. Received: kernel")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a"] = TENSORS["b.bias"]
    with h5py.File(tmp_path / "tf_model.h5", "w") as file:
        layout = h5py.VirtualLayout((4,), "float32")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "a", (4,))
        file.create_virtual_dataset("kernel", layout)
    check_refused(tmp_path, "tf_model.h5", "must be in the file itself. Received: kernel")


@pytest.mark.parametrize("data_set", [
    dict(shape=(10**12,), dtype="float32", chunks=(1000,)), dict(shape=(10**9,), dtype="uint8"),
    dict(shape=(10**12,), dtype="float32", chunks=(1000,), compression="gzip"),
])  # fmt: skip
def test_h5_of_huge_shapes(data_set, tmp_path):
    write_h5(tmp_path, **data_set)
    check_refused(tmp_path, "tf_model.h5", "larger than the file explains")


def test_h5_compressed(tmp_path):
    write_h5(tmp_path, data=TENSORS["a.weight"], compression="gzip")
    check(read_tensors(tmp_path), {"kernel": TENSORS["a.weight"], "bias": TENSORS["b.bias"]})


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2"])
def test_safetensors_of_few_bits(dtype, tmp_path):
    header = json.dumps({"a": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    check_refused(tmp_path, "model.safetensors", f"plain arrays of 16 bits or more.* Received: a of {dtype}")


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


def test_parameters_of_torch(tmp_path):
    """As `dict(model.named_parameters())` has them: they ask for gradients."""
    torch = pytest.importorskip("torch")
    state = {name: torch.nn.Parameter(torch.tensor(tensor)) for name, tensor in TENSORS.items()}
    for saved in (state, {"state_dict": state, "epoch": 3}):
        torch.save(saved, tmp_path / "pytorch_model.bin")
        check(read_tensors(tmp_path))


@pytest.mark.parametrize("make, told", [
    (lambda torch: {"a": torch.eye(3).to_sparse()}, "Received: a of torch.float32, torch.sparse_coo, on cpu"),
    (lambda torch: {"a": torch.empty(3, device="meta")}, "Received: a of torch.float32, torch.strided, on meta"),
    (lambda torch: {"a": torch.ones(3).to(torch.float8_e4m3fn)}, "Received: a of torch.float8_e4m3fn"),
    (lambda torch: {"a": torch.zeros(1).expand(10**12)}, "larger than the file explains"),
    (lambda torch: {"state_dict": [1]}, "must hold tensors by name. Received: .* with a list"),
    (lambda torch: {"state_dict": None}, "must hold tensors by name. Received: .* with a NoneType"),
    (lambda torch: [torch.ones(3)], "must hold tensors by name. Received: .* with a list"),
])  # fmt: skip
def test_other_tensors_of_torch(make, told, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(make(torch), tmp_path / "pytorch_model.bin")
    check_refused(tmp_path, "pytorch_model.bin", told)


@pytest.mark.parametrize("data", [b"", b"0.", b"\x80\x02.", b"\x80\x02}(K\x01u.", b"PK\x03\x04"])
def test_damaged_pickles(data, tmp_path):
    """A stack with nothing on it, among others."""
    pytest.importorskip("torch")
    (tmp_path / "pytorch_model.bin").write_bytes(data)
    check_refused(tmp_path, "pytorch_model.bin", "cut off, or a pickle of more than tensors")


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
    with refused("model.safetensors", tmp_path):
        read_tensors(tmp_path)
    with refused("No such checkpoint", "nowhere", FileNotFoundError):
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
