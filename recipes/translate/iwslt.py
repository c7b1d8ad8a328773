"""Files of the evaluation campaigns of IWSLT, as unpacked."""

import pathlib

from keras_headattn.data._parallel import ParallelCorpus, read_tagged, read_text


def read_iwslt(folder, source_language, target_language, split):
    """Reads a split from the files of an IWSLT evaluation campaign, as unpacked: `ParallelCorpus`.

    Training data are `train.tags.de-en.de` and `.en`, without their lines of metadata. The other splits are
    `IWSLT16.TED.tst2014.de-en.de.xml` and `.en.xml`, of which only the `<seg>` elements are text.

    Args:
        folder: str or path, the folder with those files. One made for the opposite direction serves too.
        source_language, target_language: str, for instance "de" and "en".
        split: str, "train", or for instance "tst2014": the TED set, or the TEDX set where there is no TED set
            of that year. "TEDX.tst2014" asks for one of the two; "tst2013+tst2014" joins two.

    Raises:
        FileNotFoundError: if the folder has no such files.
        ValueError: if the two sides do not match talk by talk or segment by segment, the folder holds several
            releases, or a line is not UTF-8 or not as expected.
    """
    if "+" in split:
        parts = [read_iwslt(folder, source_language, target_language, part) for part in split.split("+")]
        sides = ([line for part in parts for line in getattr(part, side)] for side in ("source", "target"))
        return ParallelCorpus(*sides, f"{split} in {folder}")
    files = iwslt_files(folder, source_language, target_language, split)
    return read_tagged(*files) if split == "train" else read_text(*files)


def iwslt_files(folder, source_language, target_language, split):
    """Finds the two files of one split, as `read_iwslt` describes them."""
    folder = pathlib.Path(folder)
    pairs = (f"{source_language}-{target_language}", f"{target_language}-{source_language}")
    if split == "train":
        patterns = [f"train.tags.{pair}." for pair in pairs]
    else:
        names = [split] if "." in split else [f"TED.{split}", f"TEDX.{split}"]
        patterns = [f"IWSLT*.{name}.{pair}." for pair in pairs for name in names]
    endings = [language if split == "train" else f"{language}.xml" for language in (source_language, target_language)]
    for pattern in patterns:
        sources = sorted(folder.glob(pattern + endings[0]))
        targets = [source.with_name(source.name.removesuffix(endings[0]) + endings[1]) for source in sources]
        matches = [both for both in zip(sources, targets, strict=True) if both[1].exists()]
        if len(matches) > 1:
            raise ValueError(
                "Keep one release in the folder, or move the other elsewhere. "
                f"Received: {' and '.join(str(source) for source, _ in matches)}"
            )
        if matches:
            return matches[0]
    wanted = ", ".join(pattern + endings[0] for pattern in patterns)
    raise FileNotFoundError(
        f"The folder needs one of {wanted} and the same for {target_language!r}. Received: folder={str(folder)!r}"
    )
