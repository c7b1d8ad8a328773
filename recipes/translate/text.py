"""The text of both languages, and its translator."""

import itertools
import pathlib

from keras_headattn._files import write_atomically
from keras_headattn.data import pad_ids
from keras_headattn.decoding import Shortlist
from keras_headattn.interop import marian_vocabularies, read_vocabularies
from keras_headattn.serving import Translator
from keras_headattn.text import LanguagePair, MosesPreprocessor
from recipes.translate.corpora import stream_training
from recipes.translate.settings import LEARNT_FROM, MOST_PIECES


def make_text(config, train, folder):
    """Learns the parts of a `LanguagePair` that the run's folder lacks, and loads the rest.

    `train` is a `ParallelCorpus`, or `None` if everything has been learned.
    """
    paths = [pathlib.Path(folder, name) for name in LanguagePair.file_names(config.one_vocabulary)]
    if not all(path.exists() for path in paths):
        for path, proto in zip(paths, _given_vocabularies(config), strict=False):
            write_atomically(path, proto)
    size = config.vocabulary_size
    if size is None and train is not None and not all(path.exists() for path in paths):
        size = fitting_vocabulary(train)
    return LanguagePair.learn(
        folder,
        None if train is None else (train.source, train.target),
        size,
        config.target_vocabulary_size,
        config.vocabulary_type,
        config.one_vocabulary,
        config.lowercase,
        config.languages if config.moses else None,
        config.truecase,
    )


def fitting_vocabulary(pairs):
    """Returns the number of pieces that suits a `ParallelCorpus`: all characters, and more for more pairs."""
    characters = len(set().union(*pairs.source, *pairs.target))
    return min(MOST_PIECES, characters + round(40 * len(pairs.source) ** 0.5))


def make_translator(transformer, text, **options):
    """Makes the `serving.Translator` of a `Transformer` and a `LanguagePair`; `options` are its arguments."""
    moses = dict(source_moses=text.source_moses, target_moses=text.target_moses)
    return Translator(transformer, text.source, text.target, **moses, **options)


def load_text(run, config, sample=None):
    """Returns the `LanguagePair` of a run, whose vocabulary must suffice for the beam; learns it from a sample."""
    text = make_text(config, sample, run.folder)
    if 2 * config.beam_size > text.target.vocabulary_size:
        raise ValueError(
            "--beam-size must be at most half the vocabulary. "
            f"Received: beam_size={config.beam_size} for {text.target.vocabulary_size} pieces"
        )
    return text


def load_translator(run, config, model, **options):
    """Returns the `Translator` of a run, with `options`; learned positions limit translations."""
    trained = run.read_config()
    names = trained.attention, trained.decoder_attention, trained.cross_attention
    learned = trained.model_arguments.get("positions") == "learned" or "synthesizer" in names
    if learned and config.max_length > trained.max_length:
        raise ValueError(
            f"The run has learned positions for {trained.max_length} tokens. Received: max_length={config.max_length}"
        )
    text = load_text(run, config)
    return make_translator(model, text, **config.decoding, shortlist=load_shortlist(run, config, text), **options)


def shortlist_path(run):
    return run.folder / "shortlist.npz"


def learn_shortlist(run, text, pairs):
    """Writes which tokens of the first `LEARNT_FROM` pairs of sentences translate which."""
    source, target = zip(*itertools.islice(pairs, LEARNT_FROM), strict=True)
    print(f"Learning the shortlist from {len(source):,} pairs")
    sides = text.encode_source(source), text.encode_target(target)
    Shortlist.learn(*sides, text.source.vocabulary_size).save(shortlist_path(run))


def load_shortlist(run, config, text, pairs=None):
    """Returns the `Shortlist` that the settings name, or `None`; a new one is learned from pairs or from records."""
    path, size = shortlist_path(run), config.shortlist
    if size and not path.exists():
        if not (pairs or config.records):
            raise ValueError(
                f"The run must learn a shortlist first: python -m recipes.translate shortlist {run.folder} "
                f"SOURCE TARGET. Received: shortlist={size}"
            )
        learn_shortlist(run, text, pairs or stream_training(config))
    return Shortlist.load(path, size) if size else None


def check_moses(languages):
    """Checks before long work begins that the packages for both languages are there."""
    for language in languages:
        MosesPreprocessor(language)


def _given_vocabularies(config):
    """Returns the SentencePiece models that are not to be learnt: those of a checkpoint or of files, or none."""
    if config.pretrained:
        return marian_vocabularies(config.pretrained)
    protos = list(itertools.chain.from_iterable(map(_read_vocabularies, config.vocabulary)))
    if protos and len(protos) != 2 - config.one_vocabulary:
        raise ValueError(
            "--vocabulary must be one for both languages, or with --no-shared-vocabulary one for each. "
            f"Received: {len(protos)} in {' '.join(config.vocabulary)}, shared_vocabulary={config.shared_vocabulary}"
        )
    return protos


def _read_vocabularies(path):
    path = pathlib.Path(path)
    return [path.read_bytes()] if path.suffix in (".model", ".spm") else read_vocabularies(path)


def inputs_and_tokens(text, sources, targets):
    """Inputs of a Transformer for sentences and their translations, lists of str, and their tokens.

    A query of the decoder is named after the token that is written there, as on the page of heads; a key after the
    token that was read.

    Returns:
        `(inputs, tokens)`: dictionary of `"source"` and `"target"`, int32 `(B, n)`; and of attention, `"encoder"`,
        `"decoder"` and `"cross"`, to the tokens of queries and of keys, a list for each sentence.
    """
    written_ids = text.encode_target(targets)
    sides = {
        "source": text.encode_source(sources),
        "target": [[text.target.bos_id, *ids[:-1]] for ids in written_ids],
    }
    inputs = {side: pad_ids(ids, len(ids), max(map(len, ids))) for side, ids in sides.items()}
    read, before = ([pieces(getattr(text, side), ids) for ids in sides[side]] for side in sides)
    written = [pieces(text.target, ids) for ids in written_ids]
    return inputs, {"encoder": (read, read), "decoder": (written, before), "cross": (written, read)}


def pieces(tokenizer, ids):
    """Returns the tokens of these ids, with `_` for the mark of a word's beginning."""
    return [tokenizer.id_to_token(int(i)).replace("\N{LOWER ONE EIGHTH BLOCK}", "_") for i in ids]
