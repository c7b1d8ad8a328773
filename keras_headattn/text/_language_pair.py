import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Self

import numpy as np

from keras_headattn._files import Path
from keras_headattn._types import Tensor
from keras_headattn.text._moses_preprocessor import MosesPreprocessor
from keras_headattn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text._sentencepiece_training import train_sentencepiece

SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class LanguagePair:
    """Tokenizers of two languages, with optional Moses preprocessing.

    Args:
        source, target: `SentencePieceTokenizer`; may be the same.
        source_moses, target_moses: `MosesPreprocessor`. Default `None`: no Moses steps.

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
        """Applies Moses' steps, if any, to source sentences.

        Args:
            sentences: list of str.
        """
        return _prepare(self.source_moses, sentences)

    def encode_source(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Encodes source sentences as int32 arrays, unpadded.

        Args:
            sentences: list of str.
        """
        return self.source.encode(self.prepare_source(sentences))

    def encode_target(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Encodes target sentences as int32 arrays, unpadded.

        Args:
            sentences: list of str.
        """
        return self.target.encode(_prepare(self.target_moses, sentences))

    def references(self, sentences: Sequence[str]) -> list[str]:
        """Returns target sentences as references for translations, lower-cased if the model is.

        Args:
            sentences: list of str.
        """
        return [sentence.lower() if self.target.lowercase else sentence for sentence in sentences]

    def decode(self, ids: Tensor) -> list[str]:
        """Decodes target ids to text, and undoes Moses' steps.

        Args:
            ids: integers `(B, m)`.
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
        """Learns the files missing from a folder and loads the others, which these arguments do not change.

        Args:
            folder: path of the folder.
            sentences: source and target sentences. Default `None`: no file is missing.
            vocabulary_size: pieces of a vocabulary.
            target_vocabulary_size: pieces of the target's own vocabulary. Default `None`: `vocabulary_size`.
            model_type: "bpe" or "unigram".
            shared_vocabulary: True for one vocabulary for both languages.
            lowercase: True to lower-case text.
            languages: codes such as `("en", "de")` to apply Moses' steps. Default `None`: no Moses steps.
            truecase: True for Moses truecasing.

        Raises:
            ValueError: if `sentences` is `None` and the folder lacks a file.
            ImportError: if a package for Moses' steps is missing.
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
            text = (line for name in learnt_from for line in _prepare(moses[name], sides[name]))
            size = side == "target" and target_vocabulary_size or vocabulary_size
            train_sentencepiece(map(str.lower, text) if lowercase else text, path, size, model_type)
        load = functools.cache(functools.partial(SentencePieceTokenizer, lowercase=lowercase))
        return cls(load(files["source"]), load(files["target"]), moses["source"], moses["target"])

    @staticmethod
    def file_names(shared_vocabulary: bool = True, moses: bool = False) -> list[str]:
        """Returns the names of the files that `learn` writes.

        Args:
            shared_vocabulary: see `learn`.
            moses: True for Moses' steps.
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
