"""Typed settings: a dataclass that is also a command line and a JSON file."""

import argparse
import dataclasses
import json
import operator
import types
import typing

LIMITS = {"at_least": operator.ge, "at_most": operator.le, "above": operator.gt, "below": operator.lt}


def option(default, help, choices=None, **limits):
    """A field of a settings dataclass with its help text and, if limited, its choices or its `LIMITS`."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, **limits})


def check_ranges(config):
    """Compares numbers with the limits of their fields; for `__post_init__`. `None` is within any.

    Raises:
        ValueError: that names the option, its limit and the value.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        for limit, within in LIMITS.items():
            if limit in field.metadata and value is not None and not within(value, field.metadata[limit]):
                raise ValueError(
                    f"{_flag(field.name)} must be {limit.replace('_', ' ')} {field.metadata[limit]}. "
                    f"Received: {field.name}={value}"
                )


def at_most_one(config, names):
    """Which one of these settings is given; `None` if none is.

    Raises:
        ValueError: if more than one is.
    """
    given = [name for name in names if getattr(config, name)]
    if len(given) > 1:
        *others, last = (_flag(name) for name in names)
        received = ", ".join(f"{name}={getattr(config, name)!r}" for name in given)
        raise ValueError(f"Give one of {', '.join(others)} and {last}. Received: {received}")
    return given[0] if given else None


def the_one(config, names):
    """Which one of these settings is given.

    Raises:
        ValueError: if none is, or more than one.
    """
    name = at_most_one(config, names)
    if name is None:
        *others, last = map(_flag, names)
        raise ValueError(f"There is nothing to train on. Give {', '.join(others)} or {last}. Received: none of them")
    return name


def check_steps(name, steps):
    """Compares a setting with a first and a last step.

    Raises:
        ValueError: if it is neither empty nor two ascending numbers from 1.
    """
    if steps and not (len(steps) == 2 and 0 < steps[0] <= steps[1]):
        raise ValueError(f"{_flag(name)} takes a first and a last step, from 1. Received: {name}={steps}")


def add_options(parser, cls, names=None, default=None, groups=()):
    """Adds options for all fields of the dataclass, or those named; one not given is absent from the result.

    Args:
        names: of the fields; `None`: all.
        default: what the help text gives as default, in place of the fields' own.
        groups: dictionary of the first field of a group to the group's title in the help text.
    """
    hints = typing.get_type_hints(cls)
    group = parser
    for field in dataclasses.fields(cls):
        if field.name in groups:
            group = parser.add_argument_group(groups[field.name])
        if names is not None and field.name not in names:
            continue
        kind, many, optional = _kind(hints[field.name])
        own = " ".join(map(str, field.default)) if many else field.default
        shown = default or ("none" if own in (None, "") else own)
        arguments = dict(default=argparse.SUPPRESS, help=f"{field.metadata['help']} [{shown}]".replace("%", "%%"))
        if kind is bool:
            arguments["action"] = argparse.BooleanOptionalAction
        else:
            arguments |= dict(type=_optional(kind) if optional else kind, choices=field.metadata["choices"])
            arguments |= dict(nargs="*") if many else {}
            arguments["metavar"] = None if field.metadata["choices"] else kind.__name__.upper()
        group.add_argument(_flag(field.name), **arguments)


def override(config, values):
    """A copy of `config` with the given values, checked.

    Raises:
        ValueError: for an unknown name, a wrong type, or a value that is not among the choices.
    """
    hints = typing.get_type_hints(type(config))
    fields = {field.name: field for field in dataclasses.fields(config)}
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise ValueError(f"There is no setting {name!r}; there are {', '.join(fields)}. Received: {name}={value!r}")
        checked[name] = _checked(name, value, hints[name], fields[name].metadata["choices"])
    return dataclasses.replace(config, **checked)


def save_config(config, path):
    """Writes the settings as JSON; `load_config` reads them."""
    # Imported late: the package brings TensorFlow, and --help need not wait for it.
    from keras_headattn._files import write_atomically

    text = json.dumps(dataclasses.asdict(config), indent=2) + "\n"
    write_atomically(path, text.encode("utf-8"))


def load_config(cls, path):
    """Settings from a JSON file; what the file does not name has its default.

    Raises:
        ValueError: as `override`, or if the file holds no JSON object.
    """
    with open(path, encoding="utf-8") as file:
        try:
            values = json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold one JSON object. Received: {type(values).__name__}")
    return override(cls(), values)


def _flag(name):
    return "--" + name.replace("_", "-")


def _kind(hint):
    """`(type, whether a tuple of it, whether None is allowed)`."""
    if isinstance(hint, types.UnionType):
        return next(kind for kind in hint.__args__ if kind is not type(None)), False, True
    if typing.get_origin(hint) is tuple:
        return hint.__args__[0], True, False
    return hint, False, False


def _optional(kind):
    def parse(text):
        return None if text.lower() == "none" else kind(text)

    parse.__name__ = kind.__name__
    return parse


def _checked(name, value, hint, choices):
    kind, many, optional = _kind(hint)
    if many and isinstance(value, (list, tuple)):
        return tuple(_checked(name, item, kind, choices) for item in value)
    if value is None and optional:
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if many or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = f"a list of {kind.__name__}" if many else kind.__name__
        raise ValueError(f"Setting `{name}` must be {wanted}. Received: {name}={value!r}")
    if choices and value not in choices:
        raise ValueError(f"Setting `{name}` must be one of {', '.join(map(str, choices))}. Received: {name}={value!r}")
    return value
