"""Typed settings: a dataclass that is also a command line and a JSON file; the arguments that settings pass on."""

import argparse
import ast
import contextlib
import dataclasses
import difflib
import inspect
import json
import operator
import types
import typing
from dataclasses import fields

from keras_headattn._files import read_json, write_atomically

PATHS = ("FILE", "FOLDER", "PATH")  # the `metavar` of settings that are paths
LIMITS = {"at_least": operator.ge, "at_most": operator.le, "above": operator.gt, "below": operator.lt}
LONGEST_CHOICES = 60  # characters beside an option; longer lists are in its help text
REQUIRED = inspect.Parameter.empty  # stands for no default
# Arguments that come from settings of other names, or from none.
GIVEN_OTHERWISE = {
    "attention", "decoder_attention", "cross_attention", "num_heads", "learning_rate", "method", "kernel_regularizer",
    "embeddings", "embeddings_initializer", "kind", "pooler", "forbidden_ids", "weights", "include_top", "input_tensor",
    "input_shape", "classes", "classifier_activation", "return_stages", "weight_regularizer", "stage_depths",
    "seed", "name", "rates", "verbose",
}  # fmt: skip


def option(default, help, choices=None, changeable=False, metavar=None, of=(), **limits):
    """Returns a field of a settings dataclass.

    Args:
        default: its default.
        help: str, for the command line.
        choices: the values that it takes. Default `None`: any of its type.
        changeable: True if a run may be continued with another value.
        metavar: what stands for a value in the help text: `"FILE"`. Default `None`: its type.
        of: for a dictionary of arguments, the classes and functions that take them: a list, or a dictionary of lists by
            the choices of another setting: `optimizer`, say, of `optimizer_arguments`. A value is merged with the
            default, key by key. Default `()`: its names are those of the default.
        **limits: bounds of numbers, named as in `LIMITS`.
    """
    metadata = {"help": help, "choices": choices, "changeable": changeable, "metavar": metavar, "of": of, **limits}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings(**defaults):
    """Decorator that makes a settings dataclass; `defaults` are other defaults of inherited fields, or fields."""

    def decorate(cls):
        bases = [base for base in reversed(cls.__mro__[1:]) if dataclasses.is_dataclass(base)]
        inherited = {field.name: field for base in bases for field in fields(base)}
        for name, default in defaults.items():
            if name not in inherited:
                near = suggestion(name, inherited)
                raise ValueError(f"{cls.__name__} must declare a new setting by option(). Received: {name}{near}")
            cls.__annotations__ = {**cls.__dict__.get("__annotations__", {}), name: inherited[name].type}
            field = default if isinstance(default, dataclasses.Field) else option(default, **inherited[name].metadata)
            setattr(cls, name, field)
        cls, hints = dataclasses.dataclass(frozen=True, kw_only=True)(cls), typing.get_type_hints(cls)
        for field in fields(cls):
            if "choices" not in field.metadata:
                raise ValueError(f"{cls.__name__} must declare a setting by option(). Received: {field.name}")
            try:
                _checked(field.name, default_of(field), hints[field.name], field.metadata["choices"])
            except ValueError as error:
                raise ValueError(f"{cls.__name__}: {error}. Declare it by option() to allow others.") from error
        return cls

    return decorate


def default_of(field):
    """Returns the default of a field."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def check_ranges(config):
    """Compares numbers with the limits of their fields, and values with their choices. `None` is within any."""
    for field in fields(config):
        value, choices = getattr(config, field.name), field.metadata["choices"]
        if choices and not {*(value if isinstance(value, tuple) else (value,))} <= {None, *choices}:
            raise ValueError(f"{flag(field.name)} must be in {list(choices)}. Received: {field.name}={value!r}")
        for limit, within in LIMITS.items():
            if limit in field.metadata and value is not None and not within(value, field.metadata[limit]):
                raise ValueError(
                    f"{flag(field.name)} must be {limit.replace('_', ' ')} {field.metadata[limit]}. "
                    f"Received: {field.name}={value}"
                )


def takers(config, field):
    """Returns what takes the arguments of a field with these settings; empty if that is open."""
    of = field.metadata["of"]
    return of.get(getattr(config, field.name.removesuffix("_arguments")), ()) if isinstance(of, dict) else of


def check_passed_on(config):
    """Checks the names and types of all arguments that settings pass on."""
    for field in fields(config):
        default = default_of(field)
        if constructors := takers(config, field):
            names = " and ".join(taker.__name__ for taker in constructors)
            known = passed_on(constructors) | default
            check_arguments(flag(field.name), getattr(config, field.name), known, names)
        elif default and isinstance(default, dict):
            check_arguments(flag(field.name), getattr(config, field.name), default, "the setting")


@contextlib.contextmanager
def passing_on(name):
    """Turns an error of a constructor into a `ValueError` that names the setting its arguments came from."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{flag(name)}: {error}") from error


def add_options(parser, cls, names=None, default=None, first=None):
    """Adds options for the fields of a settings dataclass; one that is not given is absent from the result.

    Args:
        parser: `argparse.ArgumentParser`.
        cls: settings dataclass. Fields of classes with one `title` are a group in the help text.
        names: of the fields; `None`: all.
        default: shown in place of the fields' own defaults. There are no groups then.
        first: group of the parser for the fields in the class's `MOST_USED`. Default `None`: they have none.
    """
    hints, known = typing.get_type_hints(cls), {field.name: field for field in fields(cls)}
    known = {name: field for name, field in known.items() if names is None or name in names}
    most_used = [name for name in cls.MOST_USED if name in known] if first else []
    for name in most_used:
        _add_option(first, known[name], hints[name], default)
    for title, field_names in _by_title(cls, [name for name in known if name not in most_used]).items():
        group = parser.add_argument_group(title) if default is None else parser
        for name in field_names:
            _add_option(group, known[name], hints[name], default)


def _by_title(cls, names):
    """Names of fields by the title of the class that has them; a title stands where its most basic class does."""
    homes = {name: home for home in cls.__mro__ for name in home.__dict__.get("__annotations__", {})}
    groups = {}
    for home in cls.__mro__:
        if field_names := [name for name in names if homes[name] is home]:
            groups[home.title] = field_names + groups.pop(home.title, [])
    return groups


def _add_option(group, field, hint, default):
    kind, many, optional = _kind(hint)
    value = default_of(field)
    shown = default or ("none" if value in (None, "", (), {}) else " ".join(map(str, value)) if many else value)
    if isinstance(shown, dict):
        shown = " ".join(f"{name}={_text_of(value)}" for name, value in shown.items())
    choices = field.metadata["choices"]
    names = ",".join(map(str, [*choices, "none"] if choices and optional else choices or ()))
    is_long = len(names) > LONGEST_CHOICES
    text = field.metadata["help"] + (f"; one of {names.replace(',', ', ')}" if is_long else "")
    text += _described(field.metadata["of"])
    arguments = dict(default=argparse.SUPPRESS, help=f"{text} [{shown}]".replace("%", "%%"))
    if kind is bool:
        arguments["action"] = argparse.BooleanOptionalAction
    elif kind is dict:
        arguments |= dict(nargs="*", action=_Arguments, metavar="NAME=VALUE")
    else:
        arguments |= dict(type=_optional(kind) if optional else kind, choices=None if optional else choices)
        arguments |= dict(nargs="*") if many else {}
        metavar = field.metadata["metavar"] or {str: "TEXT"}.get(kind, kind.__name__.upper())
        arguments["metavar"] = "NAME" if is_long else "{" + names + "}" if choices else metavar
    group.add_argument(flag(field.name), **arguments)


def _described(of):
    """Returns the arguments of constructors, for the help text."""
    takes = dict.fromkeys(map(tuple, of.values() if isinstance(of, dict) else [of] if of else ()))
    names = [f"{' and '.join(taker.__name__ for taker in group)}: {', '.join(passed_on(group))}" for group in takes]
    return f". {'. '.join(names)}" if names else ""


class _Arguments(argparse.Action):
    """Reads `alpha=0.1 mixture=random,dense` as a dictionary."""

    def __call__(self, parser, namespace, values, option_string=None):
        try:
            setattr(namespace, self.dest, read_arguments(values))
        except ValueError as error:
            parser.error(f"argument {option_string}: {error}")


def read_arguments(texts):
    """Turns `["alpha=0.1", "mixture=random,dense"]` into a dictionary of constructor arguments."""
    arguments = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise ValueError(f"Arguments are given as NAME=VALUE. Received: {text}")
        arguments[name] = _value(value)
    return arguments


def _value(text):
    """Returns the value that a text stands for.

    >>> _value("0.1"), _value("none"), _value("random,dense"), _value("value,"), _value("pairwise")
    (0.1, None, ('random', 'dense'), ('value',), 'pairwise')
    """
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two of deeply nested ones
        return tuple(map(_value, text.removesuffix(",").split(","))) if "," in text else text


def _text_of(value):
    """Returns the text that stands for a value.

    >>> _text_of(("a", "b")), _text_of(("test",)), _text_of(None), _text_of(0.1)
    ('a,b', 'test,', 'none', '0.1')
    """
    if isinstance(value, tuple):
        return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
    return "none" if value is None else str(value)


def override(config, values):
    """Returns a copy of `config` with other values, checked. Dictionaries are merged, key by key."""
    hints, known = typing.get_type_hints(type(config)), {field.name: field for field in fields(config)}
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"There is no setting {name!r}. Received: {name}={value!r}")
        checked[name] = _checked(name, value, hints[name], known[name].metadata["choices"])
        if isinstance(checked[name], dict):
            checked[name] = getattr(config, name) | checked[name]
    return dataclasses.replace(config, **checked)


def save_config(config, path, recipe):
    """Writes the settings of a recipe as JSON; `load_config` reads them."""
    text = json.dumps({"recipe": recipe} | dataclasses.asdict(config), indent=2) + "\n"
    write_atomically(path, text.encode("utf-8"))


def load_config(cls, path, recipe):
    """Settings of a recipe from a JSON file; what the file does not name has its default.

    Raises:
        ValueError: as `override`; or if the file holds no JSON object, or another recipe's settings.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold one JSON object. Received: {type(values).__name__}")
    stored_recipe = values.pop("recipe", None)
    if stored_recipe is None:
        raise ValueError(
            f"{path} has no entry `recipe`, so it is no run's config.json. Received: {', '.join(values) or '{}'}"
        )
    if stored_recipe != recipe:
        raise ValueError(f"{path} is of recipes.{stored_recipe}. Received: {path} for recipes.{recipe}")
    unknown = sorted(values.keys() - {field.name for field in fields(cls)})
    if unknown:
        raise ValueError(
            f"{path} is of another version of recipes.{recipe}, or was edited: there are no such settings. "
            f"Received: {', '.join(f'{name}={values[name]!r}' for name in unknown)}"
        )
    try:
        return override(cls(), values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def flag(name):
    """Returns the option of a setting: `--batch-size` of `batch_size`."""
    return "--" + name.replace("_", "-")


def _kind(hint):
    """`(type, True if a tuple of it, True if None is allowed)`."""
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
    if kind is dict and isinstance(value, dict):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if many or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = f"a list of {kind.__name__}" if many else kind.__name__
        raise ValueError(f"Setting `{name}` must be {wanted}. Received: {name}={value!r}")
    if choices and value not in choices:
        raise ValueError(f"Setting `{name}` must be one of {', '.join(map(str, choices))}. Received: {name}={value!r}")
    return value


def arguments_of(taker):
    """Returns the arguments of a function, or of the constructors of a class and its bases of the same package.

    Its own come before those of its bases. The default of one without is `REQUIRED`.

    >>> from keras_headattn.layers import InteractingHeadAttention, LuongAttention
    >>> list(arguments_of(InteractingHeadAttention))[:4], arguments_of(LuongAttention)["num_heads"]
    (['num_heads', 'key_dim', 'value_dim', 'interaction'], 1)
    """
    functions = [taker]
    if inspect.isclass(taker):
        package = taker.__module__.partition(".")[0]
        bases = [base for base in inspect.getmro(taker) if base.__module__.partition(".")[0] == package]
        functions = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    arguments = {}
    for function in functions:
        for name, argument in inspect.signature(function).parameters.items():
            if name != "self" and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                arguments.setdefault(name, argument.default)
    return arguments


def passed_on(takers):
    """Returns the optional arguments, with their defaults, that settings may pass on to classes or functions.

    >>> from keras_headattn.models import SentenceClassifier
    >>> passed_on([SentenceClassifier])
    {'pooling': None, 'mlp_dim': 2000, 'dropout': 0.5}
    """
    arguments = {}
    for taker in takers:
        arguments = arguments_of(taker) | arguments
    return {name: value for name, value in arguments.items() if value is not REQUIRED and name not in GIVEN_OTHERWISE}


def split_arguments(arguments, *takers):
    """Splits arguments among several constructors: a dictionary for each, of those that it takes."""
    return [{name: value for name, value in arguments.items() if name in passed_on([taker])} for taker in takers]


def further_kinds(taker):
    """Returns those arguments of a class that are a boolean or of a further type: use_gate=head, qk_norm=1e-5.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> sorted((name, kind.__name__) for name, kind in further_kinds(MultiHeadAttention).items())
    [('exclusive', 'str'), ('qk_norm', 'float'), ('use_bias', 'str'), ('use_gate', 'str')]
    """
    functions = [vars(base)["__init__"] for base in taker.__mro__ if "__init__" in vars(base)]
    arguments = [argument for function in functions for argument in inspect.signature(function).parameters.values()]
    kinds = {bool | str: str, bool | float: float}
    return {argument.name: kinds[argument.annotation] for argument in arguments if argument.annotation in kinds}


def check_arguments(option, arguments, known, owner, further=None):
    """Checks names of arguments, and their types against those of the defaults; their owner checks the values.

    `known` has the defaults by name; `option` and `owner`, which takes them, are for errors. `further` has
    another type that a value may have, by name.
    """
    if unknown := [name for name in arguments if name not in known]:
        near = suggestion(unknown[0], known)
        has, takes = ("have", "take") if " and " in owner else ("has", "takes")
        said = f"{has} no such argument" if near else f"{takes} {', '.join(known)}"
        raise ValueError(f"{option}: {owner} {said}. Received: {', '.join(unknown)}{near}")
    for name, value in arguments.items():
        kinds = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(type(known[name]))
        if value is None or not kinds or type(value) is (further or {}).get(name):
            continue
        if not isinstance(value, kinds) or isinstance(value, bool) != (bool in kinds):
            raise ValueError(f"{option}: `{name}` must be {kinds[-1].__name__}. Received: {name}={value!r}")


def suggestion(name, names):
    """Returns `" (did you mean alpha?)"` for `alhpa`; `""` where no name is near.

    >>> suggestion("alhpa", ["alpha", "beta"]), suggestion("mixing", ["alpha", "mixing_initializer"])
    (' (did you mean alpha?)', ' (did you mean mixing_initializer?)')
    """
    near = difflib.get_close_matches(name, names, 1) or [other for other in names if other.startswith(f"{name}_")]
    return f" (did you mean {near[0]}?)" if near else ""
