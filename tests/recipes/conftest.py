"""What the recipes draw."""

import pytest


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved, as they are: a list that fills."""
    from matplotlib.figure import Figure

    saved, save = [], Figure.savefig

    def keep(figure, *args, **kwargs):
        saved.append(figure)
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved
