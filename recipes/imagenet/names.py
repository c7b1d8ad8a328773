"""Search for image files by their names."""

import os

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp"}
LITTER = {"thumbs.db", "desktop.ini"}  # files of operating systems that are not hidden
SHOWN = 5


def find_images(folder, others):
    """Finds the image files below a folder, sorted, and counts other files by their endings in a `Counter`.

    Hidden files are passed over.
    """
    paths, folders = [], [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_image(entry.name) and entry.is_file():
                    paths.append(entry.path)
                elif not entry.name.startswith(".") and entry.name.lower() not in LITTER:
                    others[_kind(entry)] += 1
    return sorted(paths)


def describe_others(others):
    """Describes the files that `find_images` has counted: list of a sentence, or an empty one.

    >>> describe_others({".tif": 1, ".heic": 2})
    ['3 files are not images by their names: .heic, .tif']
    """
    count = sum(others.values())
    files = "1 file is not an image by its name" if count == 1 else f"{count:,} files are not images by their names"
    return [f"{files}: {first_names(sorted(others))}"] if count else []


def is_image(name):
    """True if the ending of a file name is that of an image that TensorFlow decodes."""
    return os.path.splitext(name)[1].lower() in ENDINGS


def first_names(names):
    """Returns the first names of a list, with commas."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _kind(entry):
    if not entry.is_file():
        return "a pipe, or a link to a folder or to nothing"
    return os.path.splitext(entry.name)[1].lower() or "without an ending"
