"""The Moses steps that come before subwords in most published translation scores."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Self

from headattn_io.files import Path, read_json, write_atomically
from headattn_io.optional import optional_import


class MosesPreprocessor:
    """Normalises punctuation, separates tokens by spaces, and puts sentence starts in their usual case.

    A front for the sacremoses package. XML escapes (`&apos;`) are not used: a subword vocabulary has no need
    of them. Chinese has no spaces to begin with: there the jieba package finds the words.

    Args:
        language: str, two-letter code such as "de".
        normalize: bool, whether to normalise punctuation. Default True.
        tokenize: bool, whether to separate tokens. Default True.
        truecaser: dict of str to str, from the lower-case form of a word to its usual form, as
            `train_truecaser` learns it. Default `None`: case is left alone.

    Call arguments:
        sentences: list of str.

    Returns:
        List of str, the preprocessed sentences.

    Raises:
        ImportError: if sacremoses is not installed, or jieba, for Chinese.

    Source: Koehn et al. 2007, "Moses: open source toolkit for statistical machine translation".

    >>> preprocessor = MosesPreprocessor("en")
    >>> preprocessor(["It works, doesn't it?"])
    ["It works , doesn 't it ?"]
    """

    def __init__(
        self, language: str, normalize: bool = True, tokenize: bool = True, truecaser: Mapping[str, str] | None = None
    ):
        sacremoses = optional_import("sacremoses", "recipes")
        self.language = language
        self.normalize = normalize
        self.tokenize = tokenize
        self._normalizer = sacremoses.MosesPunctNormalizer(language)
        self._tokenizer = sacremoses.MosesTokenizer(language)
        self._detokenizer = sacremoses.MosesDetokenizer(language)
        self._jieba = _import_jieba() if language == "zh" and tokenize else None
        self._truecaser = sacremoses.MosesTruecaser()
        self._detruecaser = sacremoses.MosesDetruecaser()
        self.truecaser = truecaser

    @property
    def truecaser(self) -> dict[str, str] | None:
        """dict of str to str, or `None`."""
        return self._truecaser.model["best"] if self._truecaser.model else None

    @truecaser.setter
    def truecaser(self, truecaser):
        self._truecaser.model = None if truecaser is None else {"best": dict(truecaser), "known": {}}

    def __call__(self, sentences: Sequence[str]) -> list[str]:
        lines = self._tokens(sentences)
        if self.truecaser is None:
            return list(lines)
        return [self._truecaser.truecase(line, return_str=True) for line in lines]

    def _tokens(self, sentences):
        for line in _progress(sentences, f"Moses, {self.language}"):
            if self.normalize:
                line = self._normalizer.normalize(line)
            if self._jieba:
                line = " ".join(filter(str.strip, self._jieba.cut(line)))
            elif self.tokenize:
                line = self._tokenizer.tokenize(line, return_str=True, escape=False)
            yield line

    def undo(self, sentences: Sequence[str]) -> list[str]:
        """Gives translations the form of ordinary text: a capital first, no space before punctuation.

        Args:
            sentences: list of str, as `__call__` returns them. Changes by the normalisation stay.

        Returns:
            List of str.
        """
        texts = []
        for line in _progress(sentences, f"Moses, {self.language}"):
            if self.truecaser is not None:
                line = self._detruecaser.detruecase(line, return_str=True)
            if self.tokenize:
                line = self._detokenizer.detokenize(line.split(), unescape=False)
            texts.append(line)
        return texts

    def train_truecaser(self, sentences: Sequence[str], path: Path | None = None) -> None:
        """Learns the usual case of every word from where it stands inside sentences.

        Args:
            sentences: list of str, the training text as it is: it is normalised and tokenised here.
            path: str or path, where to `save` the preprocessor then. Default `None`: nowhere.
        """
        tokens = [line.split() for line in self._tokens(sentences)]
        self.truecaser = self._truecaser.train(tokens)["best"]
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Writes the preprocessor with its truecaser to a JSON file.

        Args:
            path: str or path.
        """
        state = {name: getattr(self, name) for name in ("language", "normalize", "tokenize", "truecaser")}
        write_atomically(path, json.dumps(state, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a preprocessor that `save` wrote.

        Args:
            path: str or path.

        Returns:
            `MosesPreprocessor`.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is not one that `save` wrote.
        """
        state = read_json(path)
        if not isinstance(state, dict) or set(state) != {"language", "normalize", "tokenize", "truecaser"}:
            raise ValueError(f"{path} must be a file that `MosesPreprocessor.save` wrote. Received: {state!r:.80}")
        truecaser = state["truecaser"]
        if not isinstance(state["language"], str) or not isinstance(truecaser, (dict, type(None))):
            raise ValueError(f"{path} must have a str as `language` and a dictionary as `truecaser`, or null")
        return cls(**state)


def _import_jieba():
    jieba = optional_import("jieba", "chinese")
    jieba.setLogLevel(logging.WARNING)  # it reports how it loads its dictionary
    return jieba


def _progress(sentences, title):
    from tqdm import tqdm  # comes with sacremoses

    return tqdm(sentences, desc=title, delay=5, disable=None)
