import io
import itertools
import os
import pathlib
import re
from collections.abc import Iterable

import sentencepiece

from keras_headattn._files import Path, write_atomically
from keras_headattn._sentences import read_sentences, sample_lines
from keras_headattn._validation import check_number, check_positive


def train_sentencepiece(
    files_or_sentences: Path | Iterable[str] | Iterable[pathlib.Path],
    model_path: Path,
    vocabulary_size: int,
    model_type: str = "bpe",
    character_coverage: float = 1.0,
    user_defined_symbols: Iterable[str] = (),
    max_sentences: int | None = None,
    seed: int = 0,
) -> Path:
    """Trains a SentencePiece model, writes it to a file and returns `model_path`.

    Ids are those of this library: padding 0, unknown 1, begin of sentence 2, end of sentence 3. The same input gives
    the same file. Sentences may have up to 1 GiB; SentencePiece's default drops those of more than 4,192 bytes.

    Source: Kudo & Richardson 2018, "SentencePiece: a simple and language independent subword tokenizer and detokenizer
    for neural text processing".

    Args:
        files_or_sentences: iterable of sentences, the path of a UTF-8 text file, plain or `.gz`, or an iterable of
            `pathlib.Path`. A shared vocabulary needs the text of both languages.
        model_path: path of the file to write, by convention with the ending `.model`.
        vocabulary_size: number of pieces, including the four special ones and `user_defined_symbols`.
        model_type: "bpe" or "unigram".
        character_coverage: share of the text's characters that get their own piece, from 0.98 to 1; 0.9995 is usual for
            languages with very many characters.
        user_defined_symbols: pieces that are never split, such as "[MASK]"; they get the ids from 4.
        max_sentences: size of a random sample to train on. Default `None`: all.
        seed: seed of that sample.

    Raises:
        FileNotFoundError: if a text file is missing.
        ValueError: for empty text, or a vocabulary too large or too small for it (naming the limit), or invalid
            arguments.

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/cats.model"
    >>> train_sentencepiece(["a cat sat", "a cat ran"], path, vocabulary_size=16) == path
    True
    """
    user_defined_symbols = list(user_defined_symbols)
    _check(vocabulary_size, model_type, character_coverage, user_defined_symbols)
    sentences = _sentences(files_or_sentences)
    if max_sentences is not None:
        sentences = iter(sample_lines(sentences, check_positive("max_sentences", max_sentences), seed))
    model, faults = io.BytesIO(), []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_checked(sentences, faults),
            model_writer=model,
            vocab_size=vocabulary_size,
            model_type=model_type,
            character_coverage=character_coverage,
            user_defined_symbols=user_defined_symbols,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            max_sentence_length=2**30,  # bytes: the most it takes
            minloglevel=2,
            num_threads=4,  # written into the file, so it must not depend on the machine
        )
    except RuntimeError as error:
        raise faults[0] if faults else ValueError(_explain(str(error), vocabulary_size)) from error
    write_atomically(model_path, model.getvalue())
    return model_path


def _check(vocabulary_size, model_type, character_coverage, user_defined_symbols):
    if model_type not in ("bpe", "unigram"):
        raise ValueError(f'`model_type` must be "bpe" or "unigram". Received: model_type={model_type!r}')
    check_number("character_coverage", character_coverage, least=0.98, most=1)
    if len(set(user_defined_symbols)) < len(user_defined_symbols) or not all(user_defined_symbols):
        raise ValueError(
            "`user_defined_symbols` must be distinct and not empty. "
            f"Received: user_defined_symbols={user_defined_symbols}"
        )
    num_reserved = 4 + len(user_defined_symbols)
    if check_positive("vocabulary_size", vocabulary_size) <= num_reserved:
        raise ValueError(
            f"`vocabulary_size` must be more than {num_reserved}, as the 4 special pieces and user_defined_symbols are "
            f"part of the vocabulary. Received: vocabulary_size={vocabulary_size}"
        )


def _sentences(files_or_sentences):
    if isinstance(files_or_sentences, (str, os.PathLike)):
        return read_sentences(files_or_sentences)
    iterator = iter(files_or_sentences)
    first = next(iterator, "")
    everything = itertools.chain([first], iterator)
    if isinstance(first, os.PathLike):
        return itertools.chain.from_iterable(map(read_sentences, everything))
    if os.path.isfile(first):
        raise ValueError(
            "`files_or_sentences` must have files as pathlib.Path: strings are sentences, but the first names a file. "
            f"Received: {first!r}"
        )
    return everything


def _checked(sentences, faults):
    """Yields sentences, and keeps the error of one in `faults`: SentencePiece raises another in its place."""
    try:
        for sentence in sentences:
            if not isinstance(sentence, (str, bytes)):
                raise ValueError(f"`files_or_sentences` must be of str or paths, not both. Received: {sentence!r:.80}")
            yield sentence
    except BaseException as error:
        faults.append(error)
        raise


def _explain(message, vocabulary_size):
    """Turns an internal error of SentencePiece into one that says what to do."""
    received = f"Received: vocabulary_size={vocabulary_size}"
    if largest := re.search(r"set it to a value <= (\d+)", message):
        return f"The text is too small for this: the largest possible size is {largest[1]}. {received}"
    if required := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return (
            "The vocabulary is too small for the characters of the text: "
            f"the smallest possible size is {required[1]} (or lower character_coverage). {received}"
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return f"There is no text to train on: every sentence is empty. {received}"
    return f"{message}. {received}"
