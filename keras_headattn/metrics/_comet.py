import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_headattn._files import Path
from keras_headattn._optional import optional_import
from keras_headattn.metrics._score import Score, mean_score, package_version
from keras_headattn.metrics._sentences import check_sentences

COMET_MODEL = "Unbabel/wmt22-comet-da"


def comet(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    model: Path = COMET_MODEL,
    batch_size: int = 8,
    gpus: int = 0,
) -> Score:
    """Computes COMET in percent with unbabel-comet: a learned estimate of human judgements, averaged over sentences.

    Install `unbabel-comet`, and download the weights yourself: nothing is downloaded here.

    Source: Rei et al. 2020, "COMET: a neural framework for MT evaluation"; Rei et al. 2022, "COMET-22: Unbabel-IST 2022
    submission for the metrics shared task", for the default model.

    Args:
        hypotheses, references: see `bleu`, also for errors; a single reference for each hypothesis.
        sources: the sentences that were translated.
        model: name of a model, or path of a checkpoint.
        batch_size: sentences estimated together.
        gpus: number of GPUs to use; 0 is the CPU.

    Raises:
        ImportError: if unbabel-comet is missing.
        FileNotFoundError: if the weights are not on this machine.

    ```python
    comet(["two dogs run"], ["two dogs are running"], ["zwei Hunde laufen"])
    ```
    """
    hypotheses, references, sources = check_sentences(hypotheses=hypotheses, references=references, sources=sources)
    rows = [dict(src=s, mt=h, ref=r) for s, h, r in zip(sources, hypotheses, references, strict=True)]
    prediction = _load(comet_checkpoint(model)).predict(rows, batch_size=batch_size, gpus=gpus)
    signature = f"model:{pathlib.Path(model).name}|{package_version('unbabel-comet')}"
    return mean_score("COMET", prediction["scores"], signature)


def comet_checkpoint(model: Path = COMET_MODEL) -> str:
    """Returns the path of the weights of a COMET model, which must be on this machine.

    Args:
        model: as in `comet`, also for errors.
    """
    package: Any = optional_import("comet")
    if pathlib.Path(model).is_file():
        return str(model)
    try:
        return package.download_model(str(model), local_files_only=True)
    except Exception as error:  # of a package that looks for it
        raise FileNotFoundError(
            f"The weights of COMET must be on this machine: `comet.download_model({str(model)!r})` downloads them. "
            f"Received: model={str(model)!r}, which is not there"
        ) from error


@functools.lru_cache(1)
def _load(checkpoint):
    return optional_import("comet").load_from_checkpoint(checkpoint)
