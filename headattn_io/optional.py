"""Packages that only some parts of this library need."""

import importlib
from typing import Any


def optional_import(module: str, extra: str | None = None) -> Any:
    """Imports a module that needs packages which may not be installed.

    Args:
        module: str, full name of the module.
        extra: str, the extra of this library that includes the packages. Default `None`: none does. It is installed
            from a checkout: a package index may have another library under this name.

    Returns:
        The module.

    Raises:
        ImportError: if a package is missing, with the command that installs it.

    >>> optional_import("numpy").__name__
    'numpy'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0].replace("_", "-").replace("sklearn", "scikit-learn")
        package += "-api" if package == "tensorflow-serving" else ""
        if package == "keras-headattn":
            raise
        among = f' (or, in a checkout of keras_headattn: pip install -e ".[{extra}]")' if extra else ""
        raise ImportError(f"Install {package}: pip install {package}{among}") from error
