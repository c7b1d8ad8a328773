"""Files of tensors, of whatever layout, as dictionaries of names to NumPy arrays."""

import json
import os
import pathlib
import pickle
import zipfile

import numpy as np

from keras_headattn._optional import optional_import

FILES = "model.safetensors, pytorch_model.bin (each also in parts, with its .index.json), tf_model.h5"
FILES += ", a TensorFlow checkpoint (.index) or a t5x checkpoint"
OF_CHECKPOINTS = "/.ATTRIBUTES/VARIABLE_VALUE"


def read_tensors(path):
    """Reads all tensors of a checkpoint.

    | file | needs |
    |---|---|
    | `model.safetensors`, `model.safetensors.index.json` and its parts | |
    | `pytorch_model.bin`, `pytorch_model.bin.index.json` and its parts | PyTorch; files that hold more than tensors are refused |
    | `tf_model.h5`, `.weights.h5` | |
    | TensorFlow's `.index` and `.data`, of version 1 or 2 | |
    | t5x's `checkpoint`, of one file | msgpack |

    Args:
        path: str or path of a file; of a TensorFlow checkpoint without `.index`, too; or of a folder with one of these
            files. A folder with several is read in the order of the table.

    Returns:
        Dictionary of the names in the file to arrays, in the precision of the file.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, a pickle of something else, or of another format.
        ImportError: that names the package a format needs.

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
    if path.suffix in readers:
        return readers[path.suffix](path)
    if not path.exists() or path.with_name(f"{path.name}.index").exists():
        return _read_tensorflow(path)
    return _read_t5x(path)


def find_file(folder):
    """The file of tensors in a folder, the first in the order of `read_tensors`.

    Raises:
        ValueError: if there is none.
    """
    names = [f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", ".index.json")]
    for name in (*names, "tf_model.h5"):
        if (folder / name).exists():
            return folder / name
    if indices := sorted(folder.glob("*.index"), key=os.path.getmtime):
        return _latest(folder) or indices[-1]
    t5x = [path for path in sorted(folder.glob("*checkpoint*")) if path.is_file()]
    if t5x:
        return t5x[-1]
    pickles = [path.name for path in folder.iterdir() if path.suffix in (".pt", ".pkl", ".pickle", ".pth", ".ckpt")]
    found = f"{pickles[0]}, a pickle, which can run any program: convert it first" if pickles else folder
    raise ValueError(f"A checkpoint is {FILES}. Received: {found}")


def _latest(folder):
    """The checkpoint that TensorFlow's file `checkpoint` names."""
    state = folder / "checkpoint"
    if not state.exists():
        return None
    first = state.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    path = folder / pathlib.Path(first.partition(":")[2].strip().strip('"')).name
    return path if path.with_name(f"{path.name}.index").exists() else None


def _read_parts(index):
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"The index of a checkpoint in parts is damaged. Received: {index} ({error})") from error
    parts = {part: index.parent / pathlib.Path(part).name for part in sorted(set(names.values()))}
    if missing := [part for part, path in parts.items() if not path.exists()]:
        raise FileNotFoundError(f"The checkpoint lacks parts. Received: {index.parent} without {', '.join(missing)}")
    tensors = {}
    for path in parts.values():
        tensors |= read_tensors(path)
    return tensors


def _read_safetensors(path):
    import ml_dtypes  # noqa: F401  (NumPy has no bfloat16 by itself; Keras needs the package)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dictionary)
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"The safetensors file is damaged or cut off; get it again. Received: {path} ({error})"
        ) from error


def _read_torch(path):
    torch = optional_import("torch", "torch")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"The file is cut off, or a pickle of more than tensors, which can run any program. Received: {path} "
            f"({reason[:120]})"
        ) from error
    if not isinstance(state, dict):
        raise ValueError(f"The file must hold tensors by name. Received: {path} with a {type(state).__name__}")
    state = state.get("state_dict", state)
    return {name: _of_torch(torch, tensor) for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}


def _of_torch(torch, tensor):
    # NumPy does not take torch's bfloat16.
    return tensor.to(torch.float32).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _read_h5(path):
    import h5py

    tensors = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            tensors[name.removesuffix(":0")] = item[()]

    try:
        with h5py.File(path) as file:
            file.visititems(visit)
    except OSError as error:
        raise ValueError(f"The HDF5 file is damaged or cut off; get it again. Received: {path} ({error})") from error
    return {name: array for name, array in tensors.items() if isinstance(array, np.ndarray)}


def _read_tensorflow(path):
    import tensorflow as tf

    prefix = str(path).removesuffix(".index")
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = [name for name, dtype in reader.get_variable_to_dtype_map().items() if dtype != tf.string]
        found = {name: np.asarray(reader.get_tensor(name)) for name in sorted(names)}
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"The TensorFlow checkpoint is damaged or not complete. Received: {prefix} ({reason})"
        ) from error
    return {name.removesuffix(OF_CHECKPOINTS): array for name, array in found.items()}


def _read_t5x(path):
    msgpack = optional_import("msgpack", "t5x")
    try:
        tree = msgpack.unpackb(path.read_bytes(), ext_hook=_flax_array, strict_map_key=False)
        if not isinstance(tree, dict):
            raise ValueError(f"no dictionary but a {type(tree).__name__}")
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(
            f"The file must be a checkpoint of {FILES}. Received: {path} ({type(error).__name__}: {str(error)[:80]})"
        ) from error
    return dict(_leaves(tree, ""))


def _flax_array(code, data):
    """An array as Flax packs it: shape, name of its type, numbers."""
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
            raise ValueError(
                "The t5x checkpoint has its arrays in folders of their own; save it as one file (t5x's "
                f"`use_gda=False`), or convert it. Received: {prefix}{name}"
            )
