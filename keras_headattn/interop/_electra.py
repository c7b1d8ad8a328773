"""Both networks of ELECTRA's pre-training, in Google's and Hugging Face's formats."""

import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_headattn._files import Path, sync
from keras_headattn._types import AttentionLike
from keras_headattn.interop._configs import Config
from keras_headattn.interop._copying import Names, copy_weights
from keras_headattn.interop._export import of_encoder
from keras_headattn.interop._pretrained import canonical_tensors, encoder_arguments
from keras_headattn.interop._tables import BERT, HEADS, of_generator
from keras_headattn.models import Bert, ElectraPretraining, MaskedLM, ReplacedTokenDetector

# Hugging Face's names to Google's, before `.` becomes `/`.
GOOGLE = (
    (r"LayerNorm\.weight$", "LayerNorm.gamma"),
    (r"LayerNorm\.bias$", "LayerNorm.beta"),
    (r"_embeddings\.weight$", "_embeddings"),
    (r"\.weight$", ".kernel"),
    (r"\.layer\.(\d+)\.", r".layer_\1."),
    (r"^discriminator_predictions\.dense_prediction\.", "discriminator_predictions.dense_1."),
    (r"^generator_lm_head\.bias$", "generator_predictions.output_bias"),
)


def from_electra(
    path: Path,
    mask_id: int,
    special_ids: Sequence[int],
    generator_path: Path | None = None,
    attention: AttentionLike = "multi_head",
    generator_arguments: Mapping[str, Any] | None = None,
    return_report: bool = False,
    **overrides: Any,
) -> Any:
    """Makes an `ElectraPretraining` from a checkpoint of both networks.

    `from_pretrained` with `head="replaced_token"` or `"masked_lm"` makes one network.

    Args:
        path: str or path of a Google checkpoint or its folder, or of Hugging Face's folder of the discriminator.
        mask_id, special_ids: as in `ElectraPretraining`; 103 and (101, 102) in BERT's vocabulary.
        generator_path: str or path of Hugging Face's folder of the generator. Default `None`: `path` holds both
            networks.
        attention: the discriminator's, as in `Bert`. Default `"multi_head"`.
        generator_arguments: dictionary of arguments of the generator's `Bert`, such as `attention`. Default `None`.
        return_report: bool, True to return reports on the copying, too. Default False.
        **overrides: arguments of both `Bert`s in place of the checkpoint's; `num_heads` is the discriminator's only (64
            units a head by default without a configuration).

    Returns:
        The model, or with `return_report` `(model, reports)`: "generator" and "discriminator" to `Report`.

    Raises:
        FileNotFoundError, ValueError, ImportError: as `from_pretrained`, and if the networks have different embeddings.
    """
    path = pathlib.Path(path)
    tensors = canonical_tensors(path)
    if generator_path is None:
        generator_path, theirs = path, of_generator(tensors)
        if not any(name.startswith("encoder.") for name in theirs):
            raise ValueError(
                "The checkpoint has no generator: give `generator_path`, the folder of one. "
                f"Received: {path} with {', '.join(sorted(tensors)[:3])}"
            )
    else:
        generator_path = pathlib.Path(generator_path)
        theirs = canonical_tensors(generator_path)
    arguments, tensors = _arguments(path, tensors)
    generator, theirs = _arguments(generator_path, theirs)
    _check_same_embeddings(tensors, theirs, generator_path)
    encoder = Bert(**{**arguments, "attention": attention, **overrides}, pooler=False, name="encoder")
    both = {name: value for name, value in overrides.items() if name != "num_heads"}
    merged = {**both, **(generator_arguments or {}), "embeddings": encoder}
    masked_lm = MaskedLM(Bert(**{**generator, **merged}, pooler=False, name="encoder"), "gelu", name="generator")
    detector = ReplacedTokenDetector(encoder, name="discriminator")
    model = ElectraPretraining(masked_lm, detector, mask_id, special_ids)
    model.build()
    reports = {"generator": _copy(masked_lm, theirs), "discriminator": _copy(detector, tensors)}
    return (model, reports) if return_report else model


def _arguments(path, tensors):
    file = path / "config.json"
    return encoder_arguments("electra", Config.load(file) if file.exists() else None, path, tensors, ())


def _copy(head, tensors):
    return copy_weights(head, tensors, Names(BERT.table | HEADS["electra", type(head).__name__], unused=BERT.unused))


def _check_same_embeddings(tensors, theirs, path):
    names = [name for name in tensors.keys() & theirs.keys() if name.startswith("embeddings.")]
    if differing := [name for name in sorted(names) if not np.array_equal(tensors[name], theirs[name])]:
        raise ValueError(
            f"Generator and discriminator must have the same embeddings. Received: other {differing} in {path}"
        )


def to_electra(model: ElectraPretraining, path: Path) -> None:
    """Writes both networks as a TensorFlow 1 checkpoint for ELECTRA's own program.

    `to_hugging_face` writes them for transformers.

    Args:
        model: `ElectraPretraining` with multi-head attention.
        path: str or path of the checkpoint without ending, such as "electra/model.ckpt-1000". Its folder is created if
            missing, and existing files are replaced. If that is interrupted, there is no checkpoint.

    Raises:
        ValueError: if the program has no equivalent; nothing is written then.
    """
    import tensorflow as tf

    if not isinstance(model, ElectraPretraining):
        raise ValueError(f"`model` must be a keras_headattn.models.ElectraPretraining. Received: {model!r}")
    parts = [of_encoder(head, head.encoder, "electra")[1] for head in (model.discriminator, model.generator)]
    discriminator, generator = parts
    generator = {re.sub(r"^electra\.(?!embeddings\.)", "generator.", name): x for name, x in generator.items()}
    tensors = dict(_of_google(name, tensor) for name, tensor in (generator | discriminator).items())
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as half:
        tf.raw_ops.SaveV2(
            prefix=f"{half}/{path.name}",
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.constant(tensor) for tensor in tensors.values()],
        )
        path.with_name(f"{path.name}.index").unlink(missing_ok=True)  # without it there is no checkpoint
        for part in sorted(pathlib.Path(half).iterdir()):  # data, then index
            sync(part)
            part.replace(path.with_name(part.name))
    sync(path.parent)


def _of_google(name, tensor):
    is_kernel = name.endswith(".weight") and tensor.ndim == 2 and not name.endswith("_embeddings.weight")
    for pattern, replacement in GOOGLE:
        name = re.sub(pattern, replacement, name)
    return name.replace(".", "/"), tensor.T if is_kernel else tensor
