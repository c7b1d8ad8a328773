"""The translator of a run's settings."""

from keras_headattn import serving


class Translator(serving.Translator):
    """A `serving.Translator` that searches as a configuration has it.

    Args:
        transformer: trained `Transformer`.
        text: `LanguagePair`.
        config: `TranslateConfig`.
        beam_size: in place of the configuration's.
        **options: further arguments of `serving.Translator`.

    Raises:
        ValueError: if the beam is too wide for the vocabulary.
    """

    def __init__(self, transformer, text, config, beam_size=None, **options):
        check_beam(config, text)
        super().__init__(
            transformer,
            text.source,
            text.target,
            beam_size=beam_size or config.beam_size,
            alpha=config.alpha,
            max_length=config.max_length,
            source_moses=text.source_moses,
            target_moses=text.target_moses,
            **options,
        )


def check_beam(config, text):
    """Raises a ValueError if the configuration's beam is too wide for the vocabulary."""
    if 2 * config.beam_size > text.target.vocabulary_size:
        raise ValueError(
            "--beam-size must be at most half the vocabulary. "
            f"Received: beam_size={config.beam_size} for {text.target.vocabulary_size} pieces"
        )
