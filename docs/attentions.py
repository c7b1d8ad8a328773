"""The table of attention layers, made of `layers.ATTENTIONS` and docstrings. `python docs/attentions.py` writes it."""

import inspect
import pathlib
import re

from keras_headattn import layers

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "layers.md")
BEGIN, END = "<!-- This table is written by docs/attentions.py. -->\n", "<!-- The end of the table. -->"


def table():
    """The table as Markdown: name, class, first sentence and first source of each attention layer."""
    rows = ["| name | class | what it is | source |", "|---|---|---|---|"]
    for name, cls in layers.ATTENTIONS.items():
        text = inspect.getdoc(getattr(layers, cls))
        summary = " ".join(text.split("\n\n")[0].split())
        source = " ".join(re.search(r"(?ms)^Source: (.*?)(?:\n\n|\Z)", text)[1].split())
        author, title = re.match(r'(?:(.*?\d{4}), )?"([^"]+)"', source).groups(default="")
        rows.append(f'| `"{name}"` | `{cls}` | {summary} | {author}, *{title}* |'.replace("| , ", "| "))
    return "\n".join(rows) + "\n"


def written(page):
    """The text of a page with the table between its two marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"Written: {path.relative_to(ROOT)}")
