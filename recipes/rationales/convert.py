"""Other data sets in the layout of ERASER."""

import pathlib
import re

from keras_headattn._files import read_json_lines, read_lines
from recipes.rationales.data import SEPARATOR
from recipes.rationales.eraser import Annotation, EraserCorpus, Evidence, write_eraser


def convert(data, source, folder):
    """Writes a data set in the layout of ERASER, and prints the sizes of its splits.

    | data | files there | |
    |---|---|---|
    | esnli | `s1.SPLIT`, `s2.SPLIT`, `labels.SPLIT` | a premise and a hypothesis, two documents; without evidence |
    | cos_e | `cose_SPLIT_*.jsonl` and `SPLIT_rand_split.jsonl` | a question, its choices as the query, and the answer's letter |

    Of e-SNLI without a training set nine tenths of the dev set are for training. Of CoS-E the evidence is the words of
    the explanation's selected text where the question has them; others are kept without evidence. Its words and signs
    are apart. Half of its dev set is for testing.
    """  # noqa: E501
    source = pathlib.Path(source)
    for split, corpus in (_esnli(source) if data == "esnli" else _cos_e(source)).items():
        write_eraser(corpus, folder, split)
        marked = sum(bool(annotation.evidences) for annotation in corpus.annotations)
        print(f"{split}: {len(corpus):,} annotations, {marked:,} with evidence")


def _esnli(source):
    corpora = {
        split: _esnli_split(source, split) for split in ("train", "dev", "test") if (source / f"s1.{split}").exists()
    }
    if "dev" not in corpora or "test" not in corpora:
        raise FileNotFoundError(f"There must be s1.dev, s1.test and so on. Received: {source}")
    if "train" not in corpora:
        begin = len(corpora["dev"]) * 9 // 10
        corpora["train"], corpora["dev"] = _part(corpora["dev"], 0, begin), _part(corpora["dev"], begin, None)
    return {"train": corpora["train"], "val": corpora["dev"], "test": corpora["test"]}


def _esnli_split(source, split):
    sides = [list(read_lines(source / f"{name}.{split}")) for name in ("s1", "s2", "labels")]
    if len(set(map(len, sides))) > 1:
        raise ValueError(f"Lines belong together. Received: {[*map(len, sides)]} in s1, s2 and labels of {source}")
    documents, annotations = {}, []
    for index, (premise, hypothesis, label) in enumerate(zip(*sides, strict=True)):
        names = f"{split}-{index}_premise", f"{split}-{index}_hypothesis"
        documents |= {name: [text.split()] for name, text in zip(names, (premise, hypothesis), strict=True)}
        annotations.append(Annotation(f"{split}-{index}", "", label, (), names))
    return EraserCorpus(annotations, documents, str(source))


def _cos_e(source):
    corpora = {}
    for split in ("train", "dev"):
        questions = {row.get("id"): row for _, row in read_json_lines(source / f"{split}_rand_split.jsonl")}
        paths = sorted(path for path in source.glob(f"cose_{split}_*.jsonl") if "processed" not in path.name)
        if not paths:
            raise FileNotFoundError(f"There must be cose_{split}_*.jsonl. Received: {source}")
        if len(paths) > 1:
            print(f"{paths[0].name} is read; left out: {', '.join(path.name for path in paths[1:])}")
        corpora[split] = _cos_e_split(source, questions, read_json_lines(paths[0]))
    half = len(corpora["dev"]) // 2
    return {"train": corpora["train"], "val": _part(corpora["dev"], 0, half), "test": _part(corpora["dev"], half, None)}


def _cos_e_split(source, questions, explanations):
    documents, annotations, unknown = {}, [], 0
    for location, row in explanations:
        if (asked := questions.get(row.get("id"))) is None:
            unknown += 1
            continue
        try:
            annotation, words = _cos_e_row(row, asked)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{location}, or its question, is not as CoS-E has them: {error!r}") from error
        documents[annotation.annotation_id] = [words]
        annotations.append(annotation)
    if unknown:
        print(f"{unknown:,} of {unknown + len(annotations):,} explanations are of no question and are left out")
    return EraserCorpus(annotations, documents, str(source))


def _cos_e_row(row, asked):
    """Makes the annotation of an explanation of a question; returns it with the question's words."""
    name, words = row["id"], _tokens(asked["question"]["stem"])
    selected = _tokens(row["explanation"]["selected"].lower().removeprefix("question: "))
    groups, lower = (), [word.lower() for word in words]
    starts = [i for i in range(len(words) - len(selected) + 1) if lower[i : i + len(selected)] == selected]
    if selected and starts:
        end = starts[0] + len(selected)
        groups = ((Evidence(name, starts[0], end, text=" ".join(words[starts[0] : end])),),)
    choices = {choice["label"]: choice["text"] for choice in asked["question"]["choices"]}
    query = f" {SEPARATOR} ".join(choices[label] for label in sorted(choices))
    return Annotation(name, query, asked["answerKey"], groups, (name,)), words


def _tokens(text):
    """Splits a text into words and signs.

    >>> _tokens("Where's it? (Here.)")
    ["Where's", 'it', '?', '(', 'Here', '.', ')']
    """
    return re.findall(r"\w+(?:['’-]\w+)*|[^\w\s]", text)


def _part(corpus, begin, end):
    chosen = corpus.annotations[begin:end]
    names = [docid for annotation in chosen for docid in annotation.docids]
    return EraserCorpus(chosen, {name: corpus.documents[name] for name in names}, corpus.name)
