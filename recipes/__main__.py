"""Lists the recipes: `python -m recipes`."""

import ast
import pathlib


def main():
    print("Recipes, each with its own --help:\n")
    for path in sorted(pathlib.Path(__file__).parent.glob("[!_]*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        print(f"  python -m recipes.{path.stem:<16} {doc.splitlines()[0].rstrip('.')}")
    print("\nTry one: python -m recipes.translate --quick")


if __name__ == "__main__":
    main()
