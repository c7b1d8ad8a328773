"""The text of both languages, and what translates it, as a configuration names them."""

from keras_headattn.serving import Translator
from keras_headattn.text import LanguagePair, MosesPreprocessor


def make_text(config, train, folder):
    """Learns what the run's folder lacks, and loads the rest.

    Args:
        config: `TranslateConfig`.
        train: `ParallelCorpus`, or `None` if everything has been learned.
        folder: path of the run.

    Returns:
        `LanguagePair`.

    Raises:
        ValueError: without `train`, if the folder lacks something.
    """
    return LanguagePair.learn(
        folder,
        None if train is None else (train.source, train.target),
        config.vocabulary_size,
        config.target_vocabulary_size,
        config.vocabulary_type,
        config.shared_vocabulary,
        config.lowercase,
        _languages(config) if config.moses else None,
        config.truecase,
    )


def make_translator(transformer, text, config, **options):
    """The `serving.Translator` that searches as a `TranslateConfig` has it.

    Args:
        transformer: trained `Transformer`.
        text: `LanguagePair`.
        config: `TranslateConfig`.
        **options: arguments of `Translator`, over the configuration's.
    """
    own = {name: getattr(config, name) for name in ("beam_size", "alpha", "max_length")}
    own |= dict(source_moses=text.source_moses, target_moses=text.target_moses)
    return Translator(transformer, text.source, text.target, **own | options)


def check_text(config):
    """Whether the packages for both languages are there, which is to be told before anything long begins.

    Raises:
        ImportError: that names the package.
    """
    if config.moses:
        for language in _languages(config):
            MosesPreprocessor(language)


def text_files(config):
    """Names of the files that `make_text` makes."""
    return LanguagePair.file_names(config.shared_vocabulary, config.moses)


def _languages(config):
    return config.source_language, config.target_language
