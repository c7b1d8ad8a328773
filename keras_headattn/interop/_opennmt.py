"""Transformers of OpenNMT-tf 2."""

import re
from typing import Any

from keras import layers

from keras_headattn._files import Path
from keras_headattn._types import AttentionLike
from keras_headattn.interop._containers import read_tensors
from keras_headattn.interop._copying import Names, copy_weights
from keras_headattn.interop._sizes import _count
from keras_headattn.interop._tables import OPENNMT
from keras_headattn.models import Transformer
from keras_headattn.positions import SinusoidalPositions

INPUTTERS = "model/examples_inputter"


def from_opennmt(
    path: Path,
    num_heads: int | None = None,
    attention: AttentionLike = "multi_head",
    return_report: bool = False,
    **overrides: Any,
) -> Any:
    """Makes a `Transformer` from a checkpoint of OpenNMT-tf 2; sizes are read off the tensors.

    Token ids are the checkpoint's: 0 is padding, 1 begins a sentence, 2 ends it, the last is unknown. Search it with
    `Searcher(model, start_id=1, end_id=2)`. Vocabularies are not read.

    Args:
        path: str or path of a folder of checkpoints, whose last is read, or of a checkpoint without `.index`.
        num_heads: int. Default `None`: 64 units per head, as in TransformerBase and TransformerBig.
        attention: as in `Transformer`. Default `"multi_head"`.
        return_report: bool, True to return the `Report`, too. Default False.
        **overrides: arguments of `Transformer`, such as `activation` if it is not ReLU.

    Returns:
        The model, or with `return_report` `(model, report)`.

    Raises:
        FileNotFoundError, ValueError: if there is no such checkpoint or it does not fit, such as TransformerRelative
            and models with several sources.

    ```python
    model = from_opennmt("run/avg/ckpt-100000")
    ```
    """
    tensors = _without_copies(read_tensors(path))
    target = tensors.get(f"{INPUTTERS}/labels_inputter/embedding")
    if target is None:
        raise ValueError(f"The checkpoint must be of a Transformer of OpenNMT-tf 2. Received: {path}")
    source = tensors.get(f"{INPUTTERS}/features_inputter/embedding")
    width = target.shape[1]
    post_norm = not any(name.endswith("input_layer_norm/gamma") for name in tensors)
    heads = num_heads or max(1, width // 64)
    arguments = dict(
        source_vocabulary_size=len(target if source is None else source),
        target_vocabulary_size=None if source is None else len(target),
        num_layers=_count(tensors, r"model/encoder/layers/(\d+)/"),
        num_decoder_layers=_count(tensors, r"model/decoder/layers/(\d+)/"),
        hidden_dim=width,
        intermediate_dim=len(tensors.get("model/encoder/layers/0/ffn/layer/inner/bias", [0])),
        attention=attention,
        num_heads=heads,
        normalization="post" if post_norm else "pre",
        norm=layers.LayerNormalization(epsilon=1e-3),
        positions=SinusoidalPositions(first=1),
        tie_output="model/decoder/output_layer/kernel" not in tensors,
        output_bias="model/decoder/output_layer/bias" in tensors,
    )
    model = Transformer(**{**arguments, **overrides})
    table = {
        ours: theirs.replace("input_layer_norm", "output_layer_norm") if post_norm else theirs
        for ours, theirs in OPENNMT.table.items()
    }
    report = copy_weights(model, tensors, Names(table, "dense", unused=OPENNMT.unused))
    return (model, report) if return_report else model


def _without_copies(tensors):
    """Returns a shared embedding once, as the target's; TensorFlow writes it under the attribute it meets first."""
    tensors = {
        name: x for name, x in tensors.items() if not re.search("OPTIMIZER_SLOT|^optimizer/|^save_counter", name)
    }
    target, source = (f"{INPUTTERS}/{side}_inputter/embedding" for side in ("labels", "features"))
    output = [f"model/decoder/output_layer/{name}" for name in ("weight", "kernel")]
    bias = tensors.get("model/decoder/output_layer/bias")
    shapes = {name: tensors[name].shape for name in output if name in tensors}
    for name, shape in shapes.items():
        # A tied kernel is (vocabulary, width).
        if name.endswith("weight") or bias is not None and shape[0] == len(bias) != shape[1]:
            tensors.setdefault(target, tensors[name])
            del tensors[name]
    if target not in tensors and source in tensors:
        tensors[target] = tensors.pop(source)
    return tensors
