"""The text of two languages: tokenizers, and the steps before and after them."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Self

import numpy as np

from headattn_io.files import Path
from keras_headattn._types import Tensor
from keras_headattn.text._moses_preprocessor import MosesPreprocessor
from keras_headattn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text._sentencepiece_training import train_sentencepiece

SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class LanguagePair:
    """Sentences of two languages to token ids, and ids of the target language back to sentences.

    Args:
        source, target: `SentencePieceTokenizer`. They may be the same.
        source_moses, target_moses: `MosesPreprocessor`, the steps before the tokenizer. Default `None`: there are none.

    Example:

    >>> sentences = ["a cat sat", "a cat ran"], ["eine Katze saß", "eine Katze lief"]
    >>> pair = LanguagePair.learn("vocabularies", sentences, vocabulary_size=24)
    >>> pair.decode(pair.target(["eine Katze"]))
    ['eine Katze']
    """

    source: SentencePieceTokenizer
    target: SentencePieceTokenizer
    source_moses: MosesPreprocessor | None = None
    target_moses: MosesPreprocessor | None = None

    def prepare_source(self, sentences: Sequence[str]) -> list[str]:
        """Takes Moses' steps, if there are any.

        Args:
            sentences: list of str.

        Returns:
            List of str, the sentences as the source tokenizer takes them.
        """
        return _prepare(self.source_moses, sentences)

    def encode_source(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Turns source sentences into ids, unpadded.

        Args:
            sentences: list of str.

        Returns:
            List of int32 arrays.
        """
        return self.source.encode(self.prepare_source(sentences))

    def encode_target(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Turns target sentences into ids, unpadded.

        Args:
            sentences: list of str.

        Returns:
            List of int32 arrays.
        """
        return self.target.encode(_prepare(self.target_moses, sentences))

    def references(self, sentences: Sequence[str]) -> list[str]:
        """Target sentences to compare translations with: in lower case if the model knows no other.

        Args:
            sentences: list of str.

        Returns:
            List of str.
        """
        return [sentence.lower() if self.target.lowercase else sentence for sentence in sentences]

    def decode(self, ids: Tensor) -> list[str]:
        """Turns target ids into ordinary text, after which Moses' steps are undone.

        Args:
            ids: integer tensor `(B, m)`.

        Returns:
            List of B str.
        """
        sentences = [sentence.decode("utf-8") for sentence in self.target.detokenize(ids).numpy()]
        return self.target_moses.undo(sentences) if self.target_moses else sentences

    @classmethod
    def learn(
        cls,
        folder: Path,
        sentences: tuple[Sequence[str], Sequence[str]] | None = None,
        vocabulary_size: int = 8000,
        target_vocabulary_size: int | None = None,
        model_type: str = "bpe",
        shared_vocabulary: bool = True,
        lowercase: bool = False,
        languages: tuple[str, str] | None = None,
        truecase: bool = False,
    ) -> Self:
        """Learns what a folder lacks, and loads the rest. Other arguments than the first time have no effect on it.

        Args:
            folder: str or path, where the files named by `file_names` are.
            sentences: tuple of two lists of str, source and target. Default `None`: everything has been learned.
            vocabulary_size: int, pieces of a vocabulary. Default 8000.
            target_vocabulary_size: int, pieces of the target's own vocabulary. Default `None`: `vocabulary_size`.
            model_type: "bpe" (default) or "unigram".
            shared_vocabulary: bool, whether both languages have one vocabulary. Default True.
            lowercase: bool, whether text is lower-cased. Default False.
            languages: tuple of two str, codes such as `("en", "de")`: Moses' steps come before the tokenizers. Default
                `None`: they do not.
            truecase: bool, whether Moses' steps put sentence starts in their usual case. Default False.

        Returns:
            `LanguagePair`.

        Raises:
            ValueError: without `sentences`, if the folder lacks something.
            ImportError: if a package of Moses' steps is missing.
        """
        folder = pathlib.Path(folder)
        sides = dict(zip(SIDES, sentences or (None, None), strict=True))
        moses = dict.fromkeys(SIDES)
        for side, language in zip(SIDES, languages or (), strict=False):
            moses[side] = _moses(folder / f"moses.{side}.json", language, truecase, sides[side])
        files = {side: folder / ("vocabulary.model" if shared_vocabulary else f"{side}.model") for side in SIDES}
        for side, path in files.items():
            if path.exists():
                continue
            _need(sentences, path)
            learnt_from = SIDES if shared_vocabulary else (side,)
            text = (line for each in learnt_from for line in _prepare(moses[each], sides[each]))
            size = side == "target" and target_vocabulary_size or vocabulary_size
            train_sentencepiece(map(str.lower, text) if lowercase else text, path, size, model_type)
        load = functools.cache(functools.partial(SentencePieceTokenizer, lowercase=lowercase))
        return cls(load(files["source"]), load(files["target"]), moses["source"], moses["target"])

    @staticmethod
    def file_names(shared_vocabulary: bool = True, moses: bool = False) -> list[str]:
        """Names of the files that `learn` writes.

        Args:
            shared_vocabulary: bool, as `learn` takes it. Default True.
            moses: bool, whether there are Moses' steps. Default False.

        Returns:
            List of str.
        """
        vocabularies = ["vocabulary.model"] if shared_vocabulary else [f"{side}.model" for side in SIDES]
        return [f"moses.{side}.json" for side in SIDES if moses] + vocabularies


def _moses(path, language, truecase, sentences):
    if path.exists():
        return MosesPreprocessor.load(path)
    _need(sentences, path)
    preprocessor = MosesPreprocessor(language)
    if truecase:
        preprocessor.train_truecaser(sentences)
    preprocessor.save(path)
    return preprocessor


def _need(sentences, path):
    if sentences is None:
        raise ValueError(
            f"The folder {path.parent} is not complete: it has no {path.name}. Give the text to learn it from. "
            "Received: sentences=None"
        )


def _prepare(preprocessor, sentences):
    return preprocessor(sentences) if preprocessor else sentences
