"""The training corpus as records: tokenised once, for all runs on it."""

import functools
import pathlib

from keras_headattn._files import write_atomically
from keras_headattn._sentences import sample_lines
from keras_headattn.data import begin_records, write_records
from keras_headattn.data._parallel import ParallelCorpus
from keras_headattn.text import LanguagePair
from recipes.engine.progress import progress_bar
from recipes.engine.records import checksums_of, make_records
from recipes.translate.cleaning import CleaningReport, clean_pairs
from recipes.translate.corpora import stream_training, training_files
from recipes.translate.text import make_text

# Columns of batches, with their names in the records, those of tensor2tensor.
COLUMNS = {"source": "inputs", "target": "targets"}
# Settings that the tokens depend on, besides the text.
SETTINGS = (
    "source_language", "target_language", "max_sentences", "max_words", "max_ratio", "moses", "truecase",
    "lowercase", "vocabulary_size", "vocabulary_type", "vocabulary_sentences", "shared_vocabulary",
    "target_vocabulary_size",
)  # fmt: skip


def prepare(config, repair=False, shard_lines=100_000):
    """Writes the vocabulary and the records of a training corpus to `config.records`, or finds them complete.

    An interrupted call is continued; see `make_records` for `repair`, other processes and errors. `shard_lines` is as
    of `write_records`.
    """
    folder, names = pathlib.Path(config.records), LanguagePair.file_names(config.one_vocabulary, config.moses)

    def begin():
        print("Counting the lines of the training text")
        corpus = stream_training(config)
        return lambda: _write(config, corpus, folder, names, shard_lines)

    return make_records(folder, lambda: _made_of(config) | checksums_of(folder, names), begin, repair)


def _write(config, corpus, folder, names, shard_lines):
    """Writes the vocabulary and records that are missing."""
    begin_records(folder, _made_of(config))
    cleaning = dict(max_words=config.max_words, max_ratio=config.max_ratio)

    def sample():
        print(f"Learning the vocabulary from up to {config.vocabulary_sentences:,} pairs")
        cleaned = clean_pairs(corpus, CleaningReport(corpus.name), **cleaning)
        return sample_pairs(cleaned, corpus.name, config.vocabulary_sentences, config.seed)

    is_learned = all((folder / name).exists() for name in names)
    text = make_text(config, None if is_learned else sample(), folder)
    begin_records(folder, checksums_of(folder, names))

    def encode(pairs):
        source, target = zip(*pairs, strict=True)
        return {"inputs": text.encode_source(source), "targets": text.encode_target(target)}

    report = CleaningReport(corpus.name)
    clean = functools.partial(clean_pairs, report=report, **cleaning)
    progress = progress_bar(f"Tokenising {corpus.name}", len(corpus))
    try:
        write_records(folder, corpus, tuple(COLUMNS.values()), encode, clean, shard_lines, progress)
    except ValueError as error:
        raise ValueError(f"{report}\n{error}") from error
    print(report)


def sample_pairs(pairs, name, number, seed):
    """Draws the pairs that vocabulary and truecaser are learnt from: `ParallelCorpus`."""
    pairs = sample_lines(pairs, number, seed)
    return ParallelCorpus([source for source, _ in pairs], [target for _, target in pairs], name)


def take_files(records, names, folder):
    """Copies files from the records to a run's folder, so that it needs no records later.

    A run that has others already is a `ValueError`.
    """
    for name in names:
        data = (pathlib.Path(records) / name).read_bytes()
        path = folder / name
        if path.exists() and path.read_bytes() != data:
            raise ValueError(
                f"The run was begun with another {name} than the records have. Give another --run. Received: {path}"
            )
        write_atomically(path, data)


def _made_of(config):
    """Returns the settings and the text, by the names and sizes of its files: their folder may be another elsewhere."""
    made_of = {"text": config.tfds or config.data, "train_split": config.splits["train"]} | {
        name: getattr(config, name) for name in SETTINGS
    }
    if config.data == "built_in":
        return made_of | {"seed": config.seed}  # the numbers depend on it
    if len(config.train) == 1:
        made_of["columns"] = list(config.columns)
    if config.vocabulary:
        made_of["vocabulary"] = [pathlib.Path(file).name for file in config.vocabulary]
    files = training_files(config)
    if files:
        made_of["text"] = [path.name for path in files]
    if files and all(path.exists() for path in files):  # they may be gone by now
        made_of["bytes"] = [path.stat().st_size for path in files]
    return made_of
