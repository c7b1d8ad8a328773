import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

from headattn_io.files import Path, read_json, write_atomically
from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import check_sentences


def write_translations(
    folder: Path,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    scores: Mapping[str, Score],
) -> None:
    """Writes translations beside their scores, so that anyone can read or score them again.

    The files are `sources.txt`, `hypotheses.txt` and `references.txt`, a sentence a line (line breaks in a
    sentence become spaces), and `scores.json` with values and signatures. Each is replaced in one step,
    `scores.json` last: an interrupted call leaves no half file. Scores of the same translations by other metrics stay
    in `scores.json`.

    Args:
        folder: str or path, created if need be.
        sources: list of str.
        hypotheses: list of str, one for each source.
        references: list of str, one for each source.
        scores: dict from str to `Score`, as `evaluate_translations` returns it.

    Raises:
        ValueError: if there are no sentences, or the lists are not equally long.
    """
    lists = {"sources": sources, "hypotheses": hypotheses, "references": references}
    lists = dict(zip(lists, check_sentences(**lists), strict=True))
    scores = {name: dataclasses.asdict(score) for name, score in scores.items()}
    scores_path = pathlib.Path(folder) / "scores.json"
    files = {scores_path.with_name(f"{name}.txt"): _as_lines(sentences) for name, sentences in lists.items()}
    if scores_path.exists() and all(path.exists() and path.read_bytes() == data for path, data in files.items()):
        known = read_json(scores_path)
        if not isinstance(known, dict):
            raise ValueError(f"The scores there must be a JSON object. Received: {scores_path}")
        scores = known | scores
    text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
    for path, data in (*files.items(), (scores_path, text.encode("utf-8"))):
        write_atomically(path, data)


def _as_lines(sentences):
    return "".join(" ".join(sentence.splitlines()) + "\n" for sentence in sentences).encode("utf-8")
