"""Texts of a run, their tokenizer, and files of their tokens."""

import contextlib
import pathlib
import sys

from keras_headattn.data import TokenFile, write_tokens
from keras_headattn.interop import tokenizer_of
from keras_headattn.text import ByteTokenizer, CharacterTokenizer, train_byte_pairs
from recipes.engine.data import Corpora, decompressed, named_apart, named_files
from recipes.engine.number_words import number_documents
from recipes.engine.settings import VALIDATION_SHARE
from recipes.lm.synthetic import COUNTS, TASKS
from recipes.lm.tasks import read_tasks

ENDING = "[.][a-z]+"  # of a test set's file, which its name lacks
VALIDATION = "validation"  # the name of the test set where there is no other
DOCUMENTS = {"train": 400, "validation": 40, "test": 40}  # of the embedded task


def read_corpora(config):
    """Reads the texts that settings name as `Corpora` of str."""
    if config.synthetic:
        train, validation, test = (TASKS[config.synthetic].text(COUNTS[name], i) for i, name in enumerate(COUNTS))
        return Corpora(train, validation, {"test": test})
    if config.embedded:
        train, validation, test = ("\n".join(number_documents(DOCUMENTS[name], i)) for i, name in enumerate(DOCUMENTS))
        return Corpora(train, validation, {"test": test})
    train = "".join(map(read_text, config.train))
    if config.validation_files:
        validation = "".join(map(read_text, config.validation_files))
    else:
        end = round(len(train) * (1 - (config.validation_share or VALIDATION_SHARE)))
        train, validation = train[:end], train[end:]
    return Corpora(train, validation, read_tests(config) or {VALIDATION: validation})


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those of the settings: dictionary of str by name."""
    if files is None and not config.train:
        return {"test": read_corpora(config).tests["test"]}
    configured = named_files(config.test, ENDING)
    names = configured or [VALIDATION if config.train else "test"]  # that the run has scored
    selected = configured if files is None else named_apart(named_files(files, ENDING), names)
    return {name: read_text(paths[0]) for name, paths in selected.items()}


def read_text(path):
    """Reads a text file, plain or compressed. U+FFFD replaces bytes that are not UTF-8, which is said."""
    with open(path, "rb") as file:
        text = decompressed(file).read().decode("utf-8", "replace")
    if count := text.count("\ufffd"):
        print(f"{path}: {count:,} characters are U+FFFD, or bytes that are not UTF-8", file=sys.stderr)
    if not text:
        raise ValueError(f"A text must not be empty. Received: {path}")
    return text


def learn_tokenizer(config, text):
    """Returns the tokenizer of the checkpoint, or that of the settings, which it learns from the training text."""
    if config.checkpoint:
        return tokenizer_of(config.checkpoint)
    if config.tokenizer == "bytes":
        return ByteTokenizer()
    if config.tokenizer == "characters":
        return CharacterTokenizer(sorted(set(text)))
    return train_byte_pairs([text], config.vocabulary_size)


def encode(tokenizer, text, name):
    """Returns the ids of a text, int32 `(T,)`."""
    with naming(name):
        return tokenizer.encode([text])[0]


def write_files(run, config, texts, tokenizer):
    """Returns the `TokenFile`s of the training and validation texts, which are written into the run's folder."""
    for name, text in (("train", texts.train), ("validation", texts.validation)):
        if not (run.folder / f"{name}.json").exists():
            with naming(name):
                write_tokens(run.folder / f"{name}.bin", [text], tokenizer)
    return [TokenFile(run.folder / f"{name}.bin", tokenizer) for name in ("train", "validation")]


@contextlib.contextmanager
def naming(name):
    """Names the text in errors about its characters."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error} Or give --tokenizer bytes or byte_pairs.") from None


def check_files(config):
    """Checks that the files of a run can be opened, and reads tasks and the tokenizer of a checkpoint."""
    if config.checkpoint:
        tokenizer_of(config.checkpoint)
    read_tasks(config.tasks, config.shots)
    for path in (*config.train, *config.validation_files, *config.test):
        with pathlib.Path(path).open("rb"):
            pass
