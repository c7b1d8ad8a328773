"""Records that all runs on a text share: written by one process at a time, checked, and repaired."""

import pathlib

from keras_headattn._files import checksum
from keras_headattn.data import Records, begin_records
from recipes.engine.data import checksum as checksum_of_values
from recipes.engine.progress import progress_bar
from recipes.engine.run import locked


def make_records(folder, made_of, begin, repair=False, checksums=True):
    """Writes records, or continues with them, or finds them complete.

    One process writes at a time; another waits for it, and finds them complete then. Records made of something else are
    an error, and so are shards that are missing or damaged.

    Args:
        folder: path.
        made_of: function without arguments: what complete records must be made of, dict, as of `begin_records`.
        begin: function without arguments, which opens the text, and returns one that writes what is missing.
        repair: True to write missing or damaged shards anew.
        checksums: False to compare the sizes of shards, without reading them.
    """
    folder = pathlib.Path(folder)
    if _faults(folder, made_of, repair, checksums) == {}:
        return Records(folder)
    write = begin()
    with locked(folder, f"Another process writes the records in {folder}: waiting for it.", wait=True):
        faults = _faults(folder, made_of, repair, checksums)  # the other process may have repaired them
        if faults:
            print(f"Written anew: {', '.join(faults)}")
            Records(folder).reopen(faults)
        if faults != {}:
            write()
    return Records(folder)


def is_complete(folder):
    """True if all records are there, as far as is known without reading them."""
    return (pathlib.Path(folder) / "corpus.json").exists()  # written last


def _faults(folder, made_of, repair, checksums):
    """The faults of complete records, which are an error if not to be repaired; `None` if they are not complete."""
    if not is_complete(folder):
        return None
    begin_records(folder, made_of())
    records = Records(folder)
    progress = progress_bar(f"Checking the records in {folder}", len(records.shards)) if checksums else None
    faults = records.faults(progress, checksums)
    if faults and not repair:
        received = ", ".join(f"{name} ({fault})" for name, fault in faults.items())
        raise ValueError(f"Run `prepare` again, which writes such shards anew. Received: in {folder}, {received}")
    return faults


def fingerprint_of(records):
    """Returns the size and a checksum of `Records`, as of `fingerprint` in `data.py`, by those of the shards."""
    return {"examples": records.manifest["examples"], "sha256": checksum_of_values(records.shards)}


def checksums_of(folder, names):
    """Checksums, by name, of the files that make tokens of text; a missing one is a `ValueError`."""
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ValueError(
            f"{folder} has records, but not the vocabulary that they were made with. Remove the folder, or put it "
            f"back. Received: without {', '.join(missing)}"
        )
    return {name: checksum(folder / name) for name in names}
