"""The table of attention layers, made of `layers.ATTENTIONS` and docstrings. `python docs/attentions.py` writes it."""

import inspect
import pathlib
import re

from keras_headattn import layers

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {
    ROOT / "README.md": ("class", "what it is"),
    ROOT / "docs" / "layers.md": ("name", "class", "what it is", "source"),
}
BEGIN, END = "<!-- This table is written by docs/attentions.py. -->\n", "<!-- The end of the table. -->"


def table(columns):
    """The table as Markdown: of name, class, first sentence and first source of each attention layer."""
    rows = [columns, ["---"] * len(columns)]
    for name, cls in layers.ATTENTIONS.items():
        text = inspect.getdoc(cls)
        summary = " ".join(text.split("\n\n")[0].split())
        source = " ".join(re.search(r"(?ms)^Source: (.*?)(?:\n\n|\Z)", text)[1].split())
        author, title = re.match(r'(?:(.*?\d{4}), )?"([^"]+)"', source).groups(default="")
        source = ", ".join(filter(None, (author, f"*{title}*")))
        cells = {"name": f'`"{name}"`', "class": f"`{cls.__name__}`", "what it is": summary, "source": source}
        rows.append([cells[column] for column in columns])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(path):
    """The text of a page with the table between its two marks."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{table(PAGES[path])}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path), encoding="utf-8")
        print(f"Written: {path.relative_to(ROOT)}")
