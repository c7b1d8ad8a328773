"""Translation data sets of TensorFlow Datasets."""

import functools

from keras_headattn.data._parallel import ParallelCorpus, Sentences
from recipes.engine.data import load_tfds


def read_tfds(name, split, source_language, target_language, max_sentences=None, stream=False):
    """Reads a translation data set from TensorFlow Datasets, which downloads it on first use, as `ParallelCorpus`.

    Args:
        name: str, for instance "wmt14_translate/de-en", "wmt17_translate/cs-en" or
            "ted_hrlr_translate/pt_to_en".
        split: str, for instance "train", "validation", "test" or "train[:1%]".
        source_language, target_language: str, for instance "en" and "de".
        max_sentences: int, only the first so many pairs are read. Default `None`: all.
        stream: True for sides that are `Sentences`, which hold no sentence in memory. Default False: lists.
    """
    with load_tfds(name) as tfds:
        dataset, info = tfds.load(name, split=split, with_info=True)
    languages = source_language, target_language
    for language in languages:
        if language not in info.features:
            raise ValueError(f"{name} has the languages {sorted(info.features)}. Received: {language!r}")
    dataset = dataset.take(-1 if max_sentences is None else max_sentences)

    def read(language):
        return (pair[language].decode("utf-8").strip() for pair in dataset.as_numpy_iterator())

    length = int(dataset.cardinality())
    sides = [Sentences(functools.partial(read, language), length) for language in languages]
    if not stream:
        from tqdm import tqdm  # comes with tensorflow-datasets

        sides = [list(tqdm(side, desc=f"{name}, {split}", delay=5, disable=None)) for side in sides]
    return ParallelCorpus(*sides, f"{name}, {split}, {source_language}-{target_language}")
