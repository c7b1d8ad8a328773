"""What an installation leaves to import."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

from tests.recipes.commands import ROOT

BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
FIND = "import importlib.util, site; site.addsitedir('site'); print(importlib.util.find_spec('keras_headattn').origin)"
USE = """
import sys
sys.path += sys.argv[1:]
import keras_headattn
import numpy as np
from keras_headattn.layers import TalkingHeadsAttention
from keras_headattn.serving import export_classifier
print(keras_headattn.__file__)
print(*TalkingHeadsAttention(2, 4)(np.ones((1, 3, 8)), np.ones((1, 3, 8))).shape)
"""
RUN = {"check": True, "capture_output": True, "text": True}


def build(kind, clone, folder):
    """Builds a wheel of a copy of the library, and unpacks it into the folder `site`."""
    shutil.copytree(ROOT / "keras_headattn", clone / "keras_headattn", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / file, clone)
    subprocess.run([sys.executable, "-c", BUILD, f"build_{kind}", str(folder)], cwd=clone, **RUN)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")


def environment():
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_an_editable_install_works_beside_its_clone(tmp_path):
    """There, the clone is a folder of the package's name, without an `__init__.py`, which comes first on the path."""
    clone = tmp_path / "keras_headattn"
    build("editable", clone, tmp_path)
    # Without `site`: the tests' own installation is not found.
    process = subprocess.run([sys.executable, "-S", "-c", FIND], cwd=tmp_path, env=environment(), **RUN)
    assert process.stdout.strip() == str(clone / "keras_headattn" / "__init__.py")


def test_the_wheel_works_without_its_clone(tmp_path):
    """With the packages that are installed here, but not the tests' own installation."""
    build("wheel", tmp_path / "clone", tmp_path)
    shutil.rmtree(tmp_path / "clone")
    site, library = tmp_path / "site", tmp_path / "site" / "keras_headattn"
    command = [sys.executable, "-S", "-c", USE, str(site), sysconfig.get_path("purelib")]
    process = subprocess.run(command, cwd=tmp_path, env=environment(), **RUN)
    assert process.stdout.splitlines() == [str(library / "__init__.py"), "1 3 8"]
    names = {path.name for path in site.iterdir()}
    assert len(names) == 2 and "keras_headattn" in names  # and what pip notes: no tests, no recipes
    for kept in (ROOT / "keras_headattn").rglob("*"):
        if kept.is_file() and kept.suffix != ".pyc":
            assert (site / kept.relative_to(ROOT)).exists(), kept
