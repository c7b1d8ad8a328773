"""For `make docs`: the pages and the docstrings of this repository as HTML."""

import importlib
import inspect
import pathlib
import re
import sys
import textwrap

from docutils import nodes

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))  # `recipes` are not installed

from recipes.engine.quiet import quiet_tensorflow  # noqa: E402

quiet_tensorflow()

import keras_headattn  # noqa: E402

# The sidebar, in the order of a reader: titles of groups, and their pages.
GROUPS = {
    "Start": [
        "/docs/install",
        "/docs/replace_attention",
        "/docs/coming_from",
        "/docs/from_original_code",
        "/docs/train_look_serve",
        "/examples/README",
    ],
    "Train": [
        "/docs/training",
        "/docs/long_sequences",
        "/docs/distributed",
        "/docs/jax",
        "/docs/reliability",
        "/docs/tensorboard",
        "/docs/loggers",
    ],
    "Fine-tune": ["/docs/encoders", "/docs/glue", "/docs/tagging", "/docs/answering", "/docs/migrate"],
    "Translate and serve": [
        "/docs/translation",
        "/docs/serving",
        "/docs/deploy",
        "/docs/tokenizers",
        "/docs/take_elsewhere",
    ],
    "Look at heads": ["/docs/analysis", "/docs/rationales"],
    "Choose and change attention": [
        "/docs/which_attention",
        "/docs/layers",
        "/docs/positions",
        "/docs/language_models",
    ],
    "Papers and tasks": [
        "/docs/repulsive",
        "/docs/disentangled",
        "/docs/pretraining",
        "/docs/classification",
        "/docs/graphs",
        "/docs/imagenet",
        "/docs/series",
        "/docs/sweep",
        "/docs/papers",
        "/docs/recipes",
        "/docs/own_recipe",
    ],
    "Results": [
        "/docs/results",
        "Speed </docs/results/speed>",
        "Translation </docs/results/translation>",
        "Encoders </docs/results/encoders>",
        "Pre-training </docs/results/pretraining>",
        "Sentences </docs/results/sentences>",
        "Language models </docs/results/language_models>",
        "Texts of graphs </docs/results/graphs>",
        "Rationales </docs/results/rationales>",
        "Images </docs/results/images>",
        "What repeats </docs/results/repeated>",
        "/benchmarks/README",
    ],
    "Reference": [f"{room} </docs/reference/{room}>" for room in keras_headattn.__all__],
    "Project": ["/docs/architecture", "/docs/glossary", "/CHANGELOG", "/CONTRIBUTING", "/SECURITY", "/RELEASING"],
}

project = "keras_headattn"
release = keras_headattn.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/results/*.md",
    "docs/reference/*.rst",
    "benchmarks/*.md",
    "benchmarks/results/*.md",
    "examples/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "RELEASING.md",
]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wrap.css"]
html_title = f"keras_headattn {release}"
myst_heading_anchors = 4
default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False  # those of Keras are not reStructuredText
napoleon_custom_sections = [("Call arguments", "params_style")]


def setup(app):
    app.connect("config-inited", _write_reference)
    app.connect("source-read", _list_pages)
    app.connect("autodoc-process-signature", _of_init)
    app.connect("autodoc-process-docstring", _from_markdown, priority=400)  # before sphinx.ext.napoleon
    app.connect("doctree-resolved", _link_names)
    app.connect("build-finished", _lead_to_first_page)


def _write_reference(app, config):
    """A page a room, with a table of its names."""
    folder = pathlib.Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    for room in keras_headattn.__all__:
        name = f"keras_headattn.{room}"
        rows = "".join(
            f"   * - :py:obj:`{n}`\n     - {text}\n" for n, text in _summaries(importlib.import_module(name))
        )
        table = f".. currentmodule:: {name}\n\n.. list-table::\n\n{rows}"
        text = f"{name}\n{'=' * len(name)}\n\n{table}\n.. automodule:: {name}\n"
        page = folder / f"{room}.rst"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _summaries(module):
    """Names of the classes and functions that a module documents, with the first paragraphs of their docstrings."""
    for name in module.__all__:
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""  # a table has none
        if home.startswith("keras_headattn."):
            yield name, " ".join(inspect.getdoc(value).split("\n\n")[0].split())


def _list_pages(app, name, source):
    if name == root_doc:
        for title, pages in GROUPS.items():
            source[0] += _toctree(f":caption: {title}", *pages)
    elif name == "benchmarks/README":
        source[0] += _toctree(":glob:", "/benchmarks/results/*")


def _toctree(option, *pages):
    return "\n".join(["", "```{toctree}", ":hidden:", option, "", *pages, "```", ""])


def _of_init(app, what, name, obj, options, signature, returns):
    """Keras's `__new__` hides the arguments of a layer."""
    if what == "class":
        own = inspect.signature(obj.__init__)
        text = str(own.replace(parameters=list(own.parameters.values())[1:]))
        return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text), returns  # types without their modules


def _from_markdown(app, what, name, obj, options, lines):
    """Indented formulas, fenced code, tables of bars, and asterisks that are part of an argument's name."""
    text = re.sub(r"(?<![\w`)*])\*+(?=[a-z_]+[,:])", lambda stars: "\\*" * len(stars[0]), "\n".join(lines))
    text = re.sub(r"(?ms)^```python\n(.*?)^```", lambda code: textwrap.indent(code[1], "    "), text)
    text = re.sub(r"(?m)^(\S.*\n\n)(?=    )", r"\1::\n\n", text)
    text = re.sub(r"(?m)(?:^\|.*\|\n)+", _table, text)
    lines[:] = text.split("\n")


def _table(markdown):
    head, _, *rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown[0].splitlines()]
    cells = ["\n     - ".join(row) for row in (head, *rows)]
    return ".. list-table::\n   :header-rows: 1\n\n" + "".join(f"   * - {row}\n" for row in cells)


def _link_names(app, doctree, page):
    """Links names of this library in code type, such as `Resume` and `layers.get`, to the reference."""
    objects = app.env.domains["py"].objects
    names = _short_names(objects)
    for literal in list(doctree.findall(nodes.literal)):
        name = re.sub(r"^(keras_headattn|ka)\.|\(.*\)$", "", literal.astext())
        if name not in names or isinstance(literal.parent, nodes.reference | nodes.title):
            continue
        entry = objects[names[name]]
        uri = app.builder.get_relative_uri(page, entry.docname) + f"#{entry.node_id}"
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), internal=True, refuri=uri))


def _short_names(objects):
    """Full names by those that pages use: from the room on, and where it is clear without the room."""
    names, doubtful = {}, set()
    for full in objects:
        room, _, own = full.removeprefix("keras_headattn.").partition(".")
        names[f"{room}.{own}"] = full
        if re.search("[A-Z_]", own):  # no plain words, such as `get` and `score`
            doubtful |= {own} & names.keys()
            names[own] = full
    return {short: full for short, full in names.items() if short not in doubtful}


def _lead_to_first_page(app, exception):
    """Sphinx puts a page where its source is; who opens the folder finds `index.html`."""
    if app.builder.name == "html":
        page = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (pathlib.Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")
