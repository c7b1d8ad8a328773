"""Makes `keras.saving.load_model` know this library's classes without importing them, or Keras, before they are used.

Keras finds a class in a file by the name under which it was registered, which happens when its module is imported.
Until then the name leads to a stand-in, which imports the class when Keras makes an object of it.
"""

import importlib
import importlib.abc
import importlib.util
import sys

# Rooms with classes that Keras saves, and modules with such classes and functions.
ROOMS = ("decoding", "layers", "metrics", "models", "optimizers", "positions", "text", "training")
NAMES = {
    "layers._feed_forward": ["gelu_tanh"],
    "losses": ["LabelSmoothedCrossentropy"],
    "regularizers": ["CosineSimilarity", "Disagreement", "Frobenius"],
    "training._distribution.model": ["FunctionalModel"],
}


class _StandIn:
    """Stands for a class that is not imported yet, and imports it when Keras asks for an attribute."""

    def __init__(self, room, name):
        self.room, self.name = room, name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(getattr(importlib.import_module(f"keras_headattn.{self.room}"), self.name), attribute)


def register():
    """Gives Keras a stand-in for each class, now or, where Keras is not imported yet, when it will have been."""
    if "keras" in sys.modules:
        _add_stand_ins()
    else:
        sys.meta_path.insert(0, _AfterKeras())


def _add_stand_ins():
    from keras.saving import get_custom_objects

    known = get_custom_objects()
    rooms = {room: importlib.import_module(f"keras_headattn.{room}").__all__ for room in ROOMS}
    for room, names in (rooms | NAMES).items():
        for name in names:
            if name[0].isupper():
                known.setdefault(f"keras_headattn>{name}", _StandIn(room, name))


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Adds the stand-ins as soon as Keras has been imported; others may search for it before."""

    is_searching = False

    def find_spec(self, name, path, target=None):
        if name != "keras" or self.is_searching:
            return None
        self.is_searching = True
        spec = importlib.util.find_spec(name)
        self.is_searching = False
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                sys.meta_path.remove(self)
                _add_stand_ins()

            spec.loader.exec_module = exec_module
        return spec
