"""Files of tensors as dictionaries of NumPy arrays."""

import contextlib
import glob
import math
import os
import pathlib
import warnings

import numpy as np

from keras_headattn._files import Path, read_json
from keras_headattn._optional import optional_import

FILES = "model.safetensors, pytorch_model.bin (each also in parts, with its .index.json), tf_model.h5"
FILES += ", a TensorFlow checkpoint (.index) or a t5x checkpoint"
OF_CHECKPOINTS = "/.ATTRIBUTES/VARIABLE_VALUE"
MOST_COMPRESSED = 100  # greatest ratio of tensors to file size


class _Refusal(ValueError):
    """Error that names the file already."""


@contextlib.contextmanager
def _faults(message, path):
    """Turns any error of a library that reads a file into one sentence about the file."""
    try:
        yield
    except (_Refusal, ImportError):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:160]
        raise ValueError(f"{message}. Received: {path} ({type(error).__name__}: {reason})") from error


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Reads all tensors of a checkpoint, a dictionary from name to array, in the precision of the file.

    | file | needs |
    |---|---|
    | `model.safetensors`, `model.safetensors.index.json` and its parts | |
    | `pytorch_model.bin`, `pytorch_model.bin.index.json` and its parts | PyTorch; files that hold more than tensors are refused |
    | `tf_model.h5`, `.weights.h5` | |
    | TensorFlow's `.index` and `.data`, of version 1 or 2 | |
    | t5x's `checkpoint`, of one file | msgpack |

    Args:
        path: str or path of a file, a TensorFlow checkpoint with or without `.index`, or a folder with such files, of
            which the first in the order of the table is read.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is damaged, of another format, a pickle of other things, refers to other files, claims
            more memory than it stores, or has a dtype that NumPy lacks.
        ImportError: if the format needs a package that is not installed.

    >>> import safetensors.numpy
    >>> safetensors.numpy.save_file({"weight": np.ones((2, 3), "float16")}, "model.safetensors")
    >>> read_tensors("model.safetensors")["weight"].dtype.name
    'float16'
    """  # noqa: E501
    path = pathlib.Path(path)
    path = find_file(path) if path.is_dir() else path
    if not path.exists() and not path.with_name(f"{path.name}.index").exists():
        raise FileNotFoundError(f"No such checkpoint. Received: {path}")
    if path.name.endswith(".index.json"):
        return _read_parts(path)
    readers = {".safetensors": _read_safetensors, ".bin": _read_torch, ".h5": _read_h5, ".index": _read_tensorflow}
    if path.suffix not in readers and (not path.exists() or path.with_name(f"{path.name}.index").exists()):
        return _read_tensorflow(path)
    _check_plain_file(path)
    return readers.get(path.suffix, _read_t5x)(path)


def _check_plain_file(path):
    if not path.is_file():
        raise ValueError(f"The path must be a file of tensors, not a folder, a pipe or a device. Received: {path}")


def find_file(folder):
    """Returns the file of tensors in a folder, the first in the order of `read_tensors`."""
    names = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", ".index.json")]
    for name in (*names, "tf_model.h5"):
        if (folder / name).exists():
            return folder / name
    if indices := sorted(folder.glob("*.index"), key=os.path.getmtime):
        return _latest(folder) or indices[-1]
    t5x = sorted((path for path in folder.glob("*checkpoint*") if path.is_file()), key=os.path.getmtime)
    if t5x:
        return t5x[-1]
    pickles = [path.name for path in folder.iterdir() if path.suffix in (".pt", ".pkl", ".pickle", ".pth", ".ckpt")]
    received = f"{pickles[0]}, a pickle, which can run any program: convert it first" if pickles else folder
    raise ValueError(f"A checkpoint is {FILES}. Received: {received}")


def _latest(folder):
    """Returns the checkpoint named by TensorFlow's file `checkpoint`."""
    state = folder / "checkpoint"
    if not state.is_file():
        return None
    first = state.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    path = folder / pathlib.Path(first.partition(":")[2].strip().strip('"')).name
    return path if path.with_name(f"{path.name}.index").exists() else None


def _read_parts(index):
    with _faults("The index of a checkpoint in parts is damaged", index):
        parts = {part: index.parent / _part(part) for part in sorted({*read_json(index)["weight_map"].values()})}
        missing = [part for part, path in parts.items() if not path.exists()]
    if missing:
        raise FileNotFoundError(f"The checkpoint lacks parts. Received: {index.parent} without {', '.join(missing)}")
    tensors = {}
    for path in parts.values():
        _check_plain_file(path)
        tensors |= read_tensors(path)
    return tensors


def _part(name):
    """Returns the path of a part, which must be in the index's folder and no index itself."""
    path = pathlib.PurePath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or path.suffix not in (".safetensors", ".bin"):
        raise ValueError(f"a part must be a .safetensors or .bin file in its folder, not {name!r}")
    return path


def _read_safetensors(path):
    import ml_dtypes  # noqa: F401  (NumPy has no bfloat16 by itself; Keras needs the package)
    from safetensors import safe_open

    with (
        _faults("The safetensors file is damaged or cut off; get it again", path),
        safe_open(path, "numpy") as file,
    ):
        tensors = {}
        for name in file.keys():  # noqa: SIM118  (it is no dictionary)
            if (dtype := file.get_slice(name).get_dtype()).startswith(("F8", "F6", "F4", "E8")):
                _refuse_numbers(name, dtype, path)
            tensors[name] = file.get_tensor(name)
        return tensors


def _refuse_numbers(name, kind, path):
    raise _Refusal(
        f"Tensors must be plain arrays of 16 bits or more: dequantise the checkpoint first. Received: {name} of {kind} "
        f"in {path}"
    )


def _read_torch(path):
    torch = optional_import("torch", "torch")
    message = "The file is cut off, or a pickle of more than tensors, which can run any program"
    with _faults(message, path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sparse tensors, which are refused
        state = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and "state_dict" in state:
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise ValueError(f"The file must hold tensors by name. Received: {path} with a {type(state).__name__}")
    tensors = {str(name): tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    return {name: _of_torch(torch, name, tensor.detach(), path) for name, tensor in tensors.items()}


def _of_torch(torch, name, tensor, path):
    is_plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not is_plain or tensor.is_floating_point() and tensor.element_size() < 2:
        _refuse_numbers(name, f"{tensor.dtype}, {tensor.layout}, on {tensor.device}", path)
    _check_size(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes(), path)
    with _faults("The file has a tensor that NumPy cannot hold", path):
        # NumPy lacks bfloat16.
        return (tensor.to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _check_size(needed, stored, path):
    """Refuses tensors larger than the file explains, before memory is allocated."""
    if needed > stored:
        raise _Refusal(f"The tensors are larger than the file explains. Received: {needed} bytes of tensors in {path}")


def _read_h5(path):
    import h5py

    with _faults("The HDF5 file is damaged or cut off; get it again", path), h5py.File(path) as file:
        datasets = {}
        file.visititems(lambda name, item: datasets.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        datasets = {name: item for name, item in datasets.items() if item.dtype.kind in "fiub" and item.shape}
        for name, item in datasets.items():
            if item.external or item.is_virtual:
                raise _Refusal(f"A data set must be in the file itself. Received: {name}, of another file, in {path}")
            if item.compression is None:
                _check_size(_bytes(item), item.id.get_storage_size(), path)
        _check_size(sum(map(_bytes, datasets.values())), MOST_COMPRESSED * path.stat().st_size, path)
        return {name.removesuffix(":0"): item[()] for name, item in datasets.items()}


def _bytes(item):
    return math.prod(item.shape) * item.dtype.itemsize


def _read_tensorflow(path):
    import tensorflow as tf

    prefix = str(path).removesuffix(".index")
    for file in pathlib.Path(prefix).parent.glob(f"{glob.escape(pathlib.Path(prefix).name)}.*"):
        _check_plain_file(file)
    with _faults("The TensorFlow checkpoint is damaged or not complete", prefix):
        reader = tf.train.load_checkpoint(prefix)
        names = [name for name, dtype in reader.get_variable_to_dtype_map().items() if dtype != tf.string]
        arrays = {name: np.asarray(reader.get_tensor(name)) for name in sorted(names)}
    return {name.removesuffix(OF_CHECKPOINTS): array for name, array in arrays.items()}


def _read_t5x(path):
    msgpack = optional_import("msgpack", "t5x")
    with _faults(f"The file must be a checkpoint of {FILES}", path):
        tree = msgpack.unpackb(path.read_bytes(), ext_hook=_flax_array, strict_map_key=False)
        if not isinstance(tree, dict):
            raise ValueError(f"a {type(tree).__name__} instead of a dictionary")
        return dict(_leaves(tree, ""))


def _flax_array(code, data):
    """Unpacks Flax's array: shape, dtype name and bytes."""
    import ml_dtypes
    import msgpack

    if code not in (1, 3):
        return None
    shape, dtype, numbers = msgpack.unpackb(data)
    return np.frombuffer(numbers, getattr(ml_dtypes, dtype, None) or np.dtype(dtype)).reshape(shape)


def _leaves(tree, prefix):
    if "__msgpack_chunked_array__" in tree:
        chunks = [tree["chunks"][key] for key in sorted(tree["chunks"], key=int)]
        shape = [tree["shape"][key] for key in sorted(tree["shape"], key=int)]
        yield prefix.rstrip("/"), np.concatenate(chunks).reshape(shape)
        return
    for name, value in tree.items():
        if isinstance(value, dict) and "driver" not in value:
            yield from _leaves(value, f"{prefix}{name}/")
        elif isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, dict) or isinstance(value, str) and value.startswith("PLACEHOLDER"):
            raise _Refusal(
                "The t5x checkpoint has its arrays in folders of their own; save it as one file (t5x's "
                f"`use_gda=False`), or convert it. Received: {prefix}{name}"
            )
