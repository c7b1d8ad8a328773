"""Packages that are needed by one metric each."""

import importlib
import importlib.metadata


def optional_import(module):
    """Imports a module of the `metrics` extra.

    Args:
        module: str, full name of the module.

    Returns:
        The module.

    Raises:
        ImportError: if it is missing, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'No {module}: run `pip install "keras_headattn[metrics]"`') from error


def package_version(package):
    """Returns e.g. `"version:nltk-3.9.1"`, the last part of a signature."""
    return f"version:{package}-{importlib.metadata.version(package)}"
