import json
import logging
from collections.abc import Mapping, Sequence
from typing import Self

from keras_headattn._files import Path, read_json, write_atomically
from keras_headattn._optional import optional_import


class MosesPreprocessor:
    """Moses punctuation normalisation, tokenization and truecasing by sacremoses, without XML escapes.

    The jieba package segments Chinese.

    Source: Koehn et al. 2007, "Moses: open source toolkit for statistical machine translation".

    Args:
        language: two-letter code such as "de".
        normalize: True to normalise punctuation.
        tokenize: True to separate tokens by spaces.
        truecaser: dict from lower-case to usual form of words, see `train_truecaser`. Default `None`: case is kept.

    Call arguments:
        sentences: list of str.

    Returns:
        List of str, the preprocessed sentences.

    Raises:
        ImportError: if sacremoses, or for Chinese jieba, is not installed.

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
        """Dict from lower-case to usual form of words, or `None`."""
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
        """Restores ordinary text: a capital first, no space before punctuation. Normalisation stays.

        Args:
            sentences: list of str, as `__call__` returns them.
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
        """Learns the usual case of every word from inside sentences.

        Args:
            sentences: raw training text, list of str.
            path: where to `save` the preprocessor. Default `None`: nowhere.
        """
        tokens = [line.split() for line in self._tokens(sentences)]
        self.truecaser = self._truecaser.train(tokens)["best"]
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Writes the preprocessor with its truecaser to a JSON file.

        Args:
            path: path of the file.
        """
        state = {name: getattr(self, name) for name in ("language", "normalize", "tokenize", "truecaser")}
        write_atomically(path, json.dumps(state, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a preprocessor that `save` wrote.

        Args:
            path: path of the file.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if `save` did not write it.
        """
        state = read_json(path)
        if not isinstance(state, dict) or set(state) != {"language", "normalize", "tokenize", "truecaser"}:
            raise ValueError(f"{path} must be a file that `MosesPreprocessor.save` wrote. Received: {state!r:.80}")
        truecaser = state["truecaser"]
        if not isinstance(state["language"], str) or not isinstance(truecaser, (dict, type(None))):
            raise ValueError(
                f"{path} must have a str as `language` and a dictionary as `truecaser`, or null. "
                f"Received: language={state['language']!r:.80}, truecaser={truecaser!r:.80}"
            )
        return cls(**state)


def _import_jieba():
    jieba = optional_import("jieba", "chinese")
    jieba.setLogLevel(logging.WARNING)  # it reports how it loads its dictionary
    return jieba


def _progress(sentences, title):
    from tqdm import tqdm  # comes with sacremoses

    return tqdm(sentences, desc=title, delay=5, disable=None)
