"""Lists the recipes: `python -m recipes`."""

import ast
import pathlib


def main():
    print("Recipes, each with its own --help:\n")
    folder = pathlib.Path(__file__).parent
    commands = {path.stem: path for path in folder.glob("[!_]*.py")}
    commands |= {path.parent.name: path for path in folder.glob("*/__main__.py")}
    for name, path in sorted(commands.items()):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        print(f"  python -m recipes.{name:<16} {doc.splitlines()[0].rstrip('.')}")
    print("\nTry one: python -m recipes.translate --quick")


if __name__ == "__main__":
    main()
