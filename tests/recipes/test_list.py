"""The list of `python -m recipes`."""

import re

from recipes.__main__ import main
from tests.recipes.commands import command


def test_all_recipes_are_listed_and_can_be_run(capsys):
    main()
    names = re.findall(r"python -m recipes\.(\w+) {2,}\S", capsys.readouterr().out)
    assert {
        "answer",
        "translate",
        "classify",
        "glue",
        "tag",
        "pretrain",
        "graphs",
        "rationales",
        "imagenet",
        "lm",
        "series",
        "sweep",
        "compare",
        "curves",
        "attention_maps",
        "serve",
    } == set(names)
    assert all(callable(command(name).main) for name in names)
