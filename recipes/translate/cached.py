"""Test sets of WMT and IWSLT that sacreBLEU keeps on a machine."""

import pathlib

from keras_headattn._optional import optional_import
from keras_headattn.data._parallel import read_text


def read_cached(name, source_language, target_language):
    """Reads a test set of sacreBLEU's cache: `ParallelCorpus`. Nothing is downloaded.

    The campaign's own files are read, as entities such as `&amp;` stay in the text that sacreBLEU makes of them.

    Args:
        name: str, `sacrebleu:` and sacreBLEU's name of the set: "sacrebleu:wmt14/full".
        source_language, target_language: str, for instance "en" and "de".

    Raises:
        FileNotFoundError: if the set is not in the cache, the folder `~/.sacrebleu` or `$SACREBLEU`.
        ValueError: if sacreBLEU has no such set of these languages.
        ImportError: if sacrebleu is missing.
    """
    sacrebleu = optional_import("sacrebleu.utils", "metrics")
    sets = optional_import("sacrebleu.dataset", "metrics").DATASETS
    pair, name = f"{source_language}-{target_language}", name.partition(":")[2]
    if name not in sets or pair not in sets[name].langpairs:
        known = [test_set for test_set in sacrebleu.get_available_testsets() if pair in sets[test_set].langpairs]
        raise ValueError(f"sacreBLEU's sets for {pair} are {', '.join(known) or 'none'}. Received: {name}")
    folder = pathlib.Path(sacrebleu.SACREBLEU_DIR, name, "raw")
    source, target = (folder / file for file in sets[name].langpairs[pair][:2])
    if not source.is_file() or not target.is_file():
        raise FileNotFoundError(
            f"The set must be in sacreBLEU's cache: `sacrebleu --download {name} --language-pair {pair}` downloads it. "
            f"Received: {source}"
        )
    return read_text(source, target)
