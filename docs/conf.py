"""For `make docs`: the pages and the docstrings of this repository as HTML."""

import inspect
import re
import textwrap

import keras_headattn
from recipes.engine.quiet import quiet_tensorflow

quiet_tensorflow()

PAGES = ("docs/*", "benchmarks/results/*", "CONTRIBUTING", "CHANGELOG")

project = "keras_headattn"
release = keras_headattn.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["README.md", "docs/api.rst", *(f"{page}.md" for page in PAGES)]
html_theme = "furo"
myst_heading_anchors = 4
default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False  # those of Keras are not reStructuredText
napoleon_custom_sections = [("Call arguments", "params_style")]


def setup(app):
    app.connect("source-read", _list_pages)
    app.connect("autodoc-process-signature", _of_init)
    app.connect("autodoc-process-docstring", _from_markdown, priority=400)  # before sphinx.ext.napoleon


def _list_pages(app, name, source):
    if name == root_doc:
        pages = "\n".join(PAGES)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{pages}\n```\n"


def _of_init(app, what, name, obj, options, signature, returns):
    """Keras's `__new__` hides the arguments of a layer."""
    if what == "class":
        own = inspect.signature(obj.__init__)
        return str(own.replace(parameters=list(own.parameters.values())[1:])), returns


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
