"""Sizes and checksums of data, by which a continued run knows whether they are still the same."""

import collections.abc
import dataclasses
import hashlib
import json

ROWS = 1000  # hashed together


def fingerprint(corpora):
    """Sizes and checksums of the training and validation sets of a `Corpora`, under `"training"` and `"validation"`.

    All of their content counts but the names of files. A set of a type that JSON cannot express is left out.

    >>> from recipes.engine.corpora import Corpora
    >>> data = fingerprint(Corpora(["a", "b"], ["c"], {}))
    >>> data["training"]["examples"], data["validation"]["examples"]
    (2, 1)
    """
    parts = {"training": corpora.train, "validation": corpora.validation}
    found = {}
    for name, part in parts.items():
        try:
            if part is not None:
                found[name] = {"examples": len(part), "sha256": checksum(part)}
        except TypeError:
            pass
    return found


def checksum(value):
    """SHA-256 of values that JSON can express, and of dataclasses and sequences of them. Others are a `TypeError`."""
    digest = hashlib.sha256()
    parts = _as_json(value) if dataclasses.is_dataclass(value) else {"value": value}
    for name, part in parts.items():
        digest.update(name.encode())
        rows = list(part.items()) if isinstance(part, dict) else part
        if isinstance(rows, str) or not isinstance(rows, collections.abc.Sequence):
            rows = [rows]
        for begin in range(0, len(rows), ROWS):
            digest.update(json.dumps(list(rows[begin : begin + ROWS]), default=_as_json).encode())
    return digest.hexdigest()


def _as_json(value):
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in ("name", "damaged")]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    raise TypeError(f"Not JSON: {type(value)}")
