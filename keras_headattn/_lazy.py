"""Rooms whose parts are imported on first use."""

import sys

from keras_headattn._optional import optional_import


def attach(package, modules):
    """The functions and the list by which a package imports its public names when they are used.

    Args:
        package: `__name__` of the package.
        modules: dictionary of a module in it to the list of its public names.

    Returns:
        `(__getattr__, __dir__, __all__)` of the package.

    >>> find, names, public = attach("keras_headattn.ops", {"_attention": ["masked_softmax"]})
    >>> find("masked_softmax").__name__, public
    ('masked_softmax', ['masked_softmax'])
    """
    homes = {name: module for module, names in modules.items() for name in names}
    public = sorted(homes)

    def find(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(optional_import(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: public, public
