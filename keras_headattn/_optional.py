"""Imports of optional packages."""

import importlib
from typing import Any


def optional_import(module: str, extra: str | None = None) -> Any:
    """Imports a module of an optional package.

    Args:
        module: full name of the module.
        extra: extra of this library with the package, to install from a checkout. Default `None`: none.

    Raises:
        ImportError: if the package is missing, with the command that installs it.

    >>> optional_import("numpy").__name__
    'numpy'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0].replace("_", "-").replace("sklearn", "scikit-learn")
        package += "-api" if package == "tensorflow-serving" else ""
        package = "unbabel-comet" if package == "comet" else package
        if package == "keras-headattn":
            raise
        among = f' (or, in a checkout of keras_headattn: pip install -e ".[{extra}]")' if extra else ""
        raise ImportError(f"Install {package}: pip install {package}{among}") from error
