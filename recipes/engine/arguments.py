"""Arguments of constructors and functions, which settings pass on."""

import difflib
import inspect

REQUIRED = inspect.Parameter.empty  # stands for no default
# Arguments that come from settings of other names, or from none.
GIVEN_OTHERWISE = {
    "attention", "decoder_attention", "cross_attention", "num_heads", "learning_rate", "method", "kernel_regularizer",
    "embeddings", "embeddings_initializer", "kind", "pooler", "forbidden_ids", "weights", "include_top", "input_tensor",
    "input_shape", "classes", "classifier_activation", "return_stages", "weight_regularizer", "stage_depths",
    "seed", "name", "rates", "verbose",
}  # fmt: skip


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
    found = {}
    for function in functions:
        for name, argument in inspect.signature(function).parameters.items():
            if name != "self" and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                found.setdefault(name, argument.default)
    return found


def passed_on(takers):
    """Returns the optional arguments, with their defaults, that settings may pass on to classes or functions.

    >>> from keras_headattn.models import SentenceClassifier
    >>> passed_on([SentenceClassifier])
    {'pooling': None, 'mlp_dim': 2000, 'dropout': 0.5}
    """
    found = {}
    for taker in takers:
        found = arguments_of(taker) | found
    return {name: value for name, value in found.items() if value is not REQUIRED and name not in GIVEN_OTHERWISE}


def split_arguments(given, *takers):
    """Splits arguments among several constructors: a dictionary for each, of those that it takes."""
    return [{name: value for name, value in given.items() if name in passed_on([taker])} for taker in takers]


def check_arguments(option, given, known, owner):
    """Checks names of arguments, and their types against those of the defaults; their owner checks the values.

    `known` has the defaults by name; `option` and `owner`, which takes them, are for errors.
    """
    if unknown := [name for name in given if name not in known]:
        near = suggestion(unknown[0], known)
        has, takes = ("have", "take") if " and " in owner else ("has", "takes")
        said = f"{has} no such argument" if near else f"{takes} {', '.join(known)}"
        raise ValueError(f"{option}: {owner} {said}. Received: {', '.join(unknown)}{near}")
    for name, value in given.items():
        kinds = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(type(known[name]))
        if value is not None and kinds and (not isinstance(value, kinds) or isinstance(value, bool) != (bool in kinds)):
            raise ValueError(f"{option}: `{name}` must be {kinds[-1].__name__}. Received: {name}={value!r}")


def suggestion(name, names):
    """Returns `" (did you mean alpha?)"` for `alhpa`; `""` where no name is near.

    >>> suggestion("alhpa", ["alpha", "beta"])
    ' (did you mean alpha?)'
    """
    near = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""
