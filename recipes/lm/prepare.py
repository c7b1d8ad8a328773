"""Token files, written once for all runs on them."""

import itertools
import json
import pathlib

from keras.saving import serialize_keras_object

from keras_headattn._files import check_local, write_atomically
from keras_headattn.data import Sentences, write_tokens
from recipes.engine.config import add_options
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import given_settings
from recipes.lm.data import check_files, is_tokens, make_tokenizer, naming, read_documents
from recipes.lm.settings import LmConfig

SETTINGS = ("documents", "tokenizer", "vocabulary_size", "checkpoint")
FORMATS = ("tokens", "nanogpt", "llm.c")


def add_prepare(parser):
    """Adds the arguments of `prepare`."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help='text files, .gz too, or .jsonl of objects with "text"'
    )
    parser.add_argument("output", help="token file, NAME.bin, with NAME.json and its tokenizer, NAME.tokenizer.json")
    parser.add_argument(
        "--format", choices=FORMATS, default="tokens", help="library whose layout it has [tokens: ours]"
    )
    add_options(parser, LmConfig, SETTINGS)


def prepare(options):
    """Writes the documents of text files as a token file, with its tokenizer beside it."""
    given, output = given_settings(options, SETTINGS), pathlib.Path(options.output)
    config = LmConfig(**given, train=tuple(options.files))
    config.refuse_unused(given)
    check_local("OUTPUT", output)
    if output.suffix != ".bin" or is_tokens(*options.files):
        raise ValueError(
            "`prepare` takes text files and, last, the token file to write, NAME.bin. "
            f"Received: {' '.join(options.files)} and {output}"
        )
    written = {output.with_suffix(end).resolve() for end in (".json", ".tokenizer.json")}
    if replaced := [path for path in options.files if pathlib.Path(path).resolve() in written]:
        raise ValueError(
            f"The description of {output} would replace a text: name it otherwise. Received: {replaced[0]}"
        )
    quiet_tensorflow()
    check_files(config)
    for path in options.files:
        next(read_documents(path, config.documents))  # one that cannot be read is reported now
    texts = Sentences(lambda: itertools.chain.from_iterable(read_documents(p, config.documents) for p in options.files))
    tokenizer = make_tokenizer(config, texts)
    with naming("FILE"):
        tokens = write_tokens(output, texts, tokenizer, options.format)
    path = output.with_suffix(".tokenizer.json")
    write_atomically(path, json.dumps(serialize_keras_object(tokenizer)).encode())
    print(f"{len(tokens):,} tokens, {tokenizer.vocabulary_size:,} different ones: {output}")
    print(f"Next: python -m recipes.lm --train {output} --tokenizer {path}")
