"""Translating lists of sentences with a trained model."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_headattn.data import source_batches, source_lengths
from keras_headattn.decoding import Searcher


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and its score, the log probability divided by the length penalty."""

    text: str
    score: float


class Translator:
    """Translates sentences, sorted by length, in batches of few shapes, each compiled once.

    Args:
        transformer: trained `Transformer`.
        text: `Text`.
        config: `TranslateConfig`, for the settings of decoding.
        beam_size: in place of the configuration's.
        batch_size: sentences decoded together.
        jit_compile: whether XLA compiles the search: faster, after a few seconds for each length.

    Raises:
        ValueError: if the beam is too wide for the vocabulary.
    """

    def __init__(self, transformer, text, config, beam_size=None, batch_size=64, jit_compile=True):
        check_beam(config, text)
        self.text = text
        self.batch_size = batch_size
        self.buckets = source_lengths(config.max_length)
        self.searcher = Searcher(
            transformer,
            beam_size=beam_size or config.beam_size,
            alpha=config.alpha,
            max_length=config.max_length,
            start_id=text.target.bos_id,
            end_id=text.target.eos_id,
        )
        self._search = tf.function(self.searcher, jit_compile=jit_compile, autograph=False)

    def __call__(self, sentences, progress=None):
        """The best translation of each sentence.

        Args:
            sentences: list of str. Tokens beyond the longest bucket are cut off. An empty sentence stays empty.
            progress: function of (sentences done), called after each batch.

        Returns:
            List of `Translation`.
        """
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        ids = [self._cut(row) for row in self.text.encode_source([sentences[place] for place in places])]
        translations = [Translation("", 0.0)] * len(sentences)
        done = len(sentences) - len(places)
        for indices, batch in source_batches(ids, self.buckets, self.batch_size):
            found = self._search(tf.constant(batch))
            texts = self.text.decode(found["tokens"][: len(indices), 0])
            for index, text, score in zip(indices, texts, found["scores"][:, 0].numpy(), strict=False):
                translations[places[index]] = Translation(text, float(score))
            done += len(indices)
            if progress:
                progress(done)
        return translations

    def _cut(self, row):
        longest = self.buckets[-1]
        return row if len(row) <= longest else np.append(row[: longest - 1], self.text.source.eos_id)


def check_beam(config, text):
    """Raises a ValueError if the configuration's beam is too wide for the vocabulary."""
    if 2 * config.beam_size > text.target.vocabulary_size:
        raise ValueError(
            "--beam-size must be at most half the vocabulary. "
            f"Received: beam_size={config.beam_size} for {text.target.vocabulary_size} pieces"
        )
