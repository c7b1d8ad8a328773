"""Arguments of layers, models and optimizers, read from their source: importing them would import TensorFlow."""

import ast
import difflib
import functools
import importlib.util
import operator
import pathlib

REQUIRED = object()  # stands for no default
NO_LITERAL = object()  # stands for a default that is made by code
LIMITS = {"at_least": operator.ge, "at_most": operator.le, "above": operator.gt, "below": operator.lt}
SHARE, COUNT, POSITIVE, NOT_NEGATIVE = {"at_least": 0, "below": 1}, {"at_least": 1}, {"above": 0}, {"at_least": 0}
# Bounds of arguments. Keras checks few, and layers are made after data were read.
BOUNDS = {
    **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "jitter"), SHARE),
    **dict.fromkeys(("beta_1", "beta_2", "momentum"), SHARE),
    **dict.fromkeys(("num_layers", "num_encoder_layers", "hidden_dim", "intermediate_dim", "embedding_dim"), COUNT),
    **dict.fromkeys(("mlp_dim", "factor_dim", "head_dim", "lstm_dim", "pooling_dim", "filters", "min_key_dim"), COUNT),
    **dict.fromkeys(("steps_per_execution", "save_steps"), COUNT),
    **dict.fromkeys(("patch_size", "min_count", "max_words", "num_buckets", "num_graph_buckets"), COUNT),
    **dict.fromkeys(("clipnorm", "global_clipnorm", "clipvalue", "epsilon", "step_size"), POSITIVE),
    **dict.fromkeys(("inverse_temperature", "prior_deviation", "initializer_range"), POSITIVE),
    **dict.fromkeys(("generator_share", "key_ratio", "value_ratio"), POSITIVE),
    **dict.fromkeys(("weight", "repulsive_weight", "weight_decay", "discriminator_weight"), NOT_NEGATIVE),
    **dict.fromkeys(("repetition_penalty", "temperature"), POSITIVE),
    **dict.fromkeys(("num_samples", "top_k"), COUNT),
    **dict.fromkeys(("trainable_layers", "min_length", "no_repeat_ngram_size", "coverage_penalty"), NOT_NEGATIVE),
    "top_p": {"above": 0, "at_most": 1},
    "gradient_accumulation_steps": {"at_least": 2},
    "min_area": {"at_least": 0.001},
    "drawn_share": {"above": 0, "below": 1},
    "masked_share": {"at_least": 0, "at_most": 1},
}
# Arguments that come from settings of other names, or from none.
GIVEN_OTHERWISE = {
    "attention", "decoder_attention", "cross_attention", "num_heads", "learning_rate", "method", "kernel_regularizer",
    "embeddings", "embeddings_initializer", "kind", "pooler", "forbidden_ids", "weights", "include_top", "input_tensor",
    "input_shape", "classes", "classifier_activation", "return_stages", "weight_regularizer", "stage_depths",
    "seed", "name", "rates", "verbose", "kwargs",
}  # fmt: skip


def _path(module):
    package, *names = module.split(".")
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    return pathlib.Path(folder, *names)


@functools.cache
def _parse(module):
    """Returns the syntax tree of a module such as `"keras_headattn.layers._attention"`."""
    path = _path(module)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _table(module, name):
    """Returns the dictionary that a module assigns to a name, each value as its source."""
    (found,) = (
        node.value for node in _parse(module).body if isinstance(node, ast.Assign) and node.targets[0].id == name
    )
    return {ast.literal_eval(key): ast.unparse(value) for key, value in zip(found.keys, found.values, strict=True)}


ATTENTIONS = _table("keras_headattn.layers", "ATTENTIONS")  # name to name of the class
SIZES, VIT_SIZES = (
    {name: ast.literal_eval(size) for name, size in _table("keras_headattn.models._sizes", table).items()}
    for table in ("SIZES", "VIT_SIZES")
)


def arguments_of(name):
    """The arguments of an attention in `layers.ATTENTIONS`, its own before those of its bases, with their defaults.

    The default of one without is `REQUIRED`, of one made by code `NO_LITERAL`.

    >>> list(arguments_of("interacting"))[:4], arguments_of("luong")["num_heads"]
    (['num_heads', 'key_dim', 'value_dim', 'interaction'], 1)
    """
    return _arguments(f"keras_headattn.layers.{ATTENTIONS[name]}")


def passed_on(paths):
    """The optional arguments, with their defaults, that settings may pass on to classes or functions, by their paths.

    >>> passed_on(["keras_headattn.models.SentenceClassifier"])
    {'pooling': None, 'mlp_dim': 2000, 'dropout': 0.5}
    """
    found = {}
    for path in paths:
        found |= {name: value for name, value in _arguments(path).items() if name not in found}
    return {name: value for name, value in found.items() if value is not REQUIRED and name not in GIVEN_OTHERWISE}


def split_arguments(given, *paths):
    """Splits arguments among several constructors: a dictionary for each path, of those that it takes."""
    return [{name: value for name, value in given.items() if name in passed_on([path])} for path in paths]


def check_arguments(option, given, known, owner):
    """Checks names of arguments, their types against those of the defaults, and numbers against `BOUNDS`.

    `known` has the defaults by name; `option` and `owner`, which takes them, are for errors.
    """
    if unknown := [name for name in given if name not in known]:
        near = suggestion(unknown[0], known)
        has, takes = ("have", "take") if " and " in owner else ("has", "takes")
        said = f"{has} no such argument" if near else f"{takes} {', '.join(known)}"
        raise ValueError(f"{option}: {owner} {said}. Received: {', '.join(unknown)}{near}")
    for name, value in given.items():
        if value is None:
            continue
        kinds = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(type(known[name]))
        kinds = kinds or (int, float) if name in BOUNDS else kinds
        if kinds and (not isinstance(value, kinds) or isinstance(value, bool) != (bool in kinds)):
            raise ValueError(f"{option}: `{name}` must be {kinds[-1].__name__}. Received: {name}={value!r}")
        for limit, bound in BOUNDS.get(name, {}).items():
            if not LIMITS[limit](value, bound):
                raise ValueError(
                    f"{option}: `{name}` must be {limit.replace('_', ' ')} {bound}. Received: {name}={value!r}"
                )


def suggestion(name, names):
    """Returns `" (did you mean alpha?)"` for `alhpa`; `""` where no name is near.

    >>> suggestion("alhpa", ["alpha", "beta"])
    ' (did you mean alpha?)'
    """
    near = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {near[0]}?)" if near else ""


@functools.cache
def _arguments(path):
    found, signatures = {}, _signatures(*path.rsplit(".", 1))
    if not signatures:
        raise LookupError(f"There must be a function or a class of this path. Received: {path}")
    for arguments in signatures:
        positional = [each for each in arguments.posonlyargs + arguments.args if each.arg not in ("self", "cls")]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
        for argument, default in zip(positional + arguments.kwonlyargs, defaults + arguments.kw_defaults, strict=True):
            found.setdefault(argument.arg, _value(default))
    return found


def _signatures(module, name):
    """The `ast.arguments` of a function, or of the constructors of a class and its bases in the same package."""
    first, *rest = name.split(".")
    for node in _parse(module).body:
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == module.split(".")[0]:
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    return _signatures(*".".join([node.module, alias.name, *rest]).rsplit(".", 1))
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            return [node.args]
        elif isinstance(node, ast.ClassDef) and node.name == name:
            own = [each.args for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            return own + [each for base in node.bases for each in _signatures(module, ast.unparse(base))]
    return []  # of another package


def _value(default):
    if default is None:
        return REQUIRED
    try:
        return ast.literal_eval(default)
    except ValueError:
        return NO_LITERAL
