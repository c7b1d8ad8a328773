"""What an installation leaves to import."""

import os
import shutil
import subprocess
import sys
import zipfile

from tests.recipes.commands import ROOT

BUILD = "import sys, setuptools.build_meta; print(setuptools.build_meta.build_editable(sys.argv[1]))"
FIND = "import importlib.util, site; site.addsitedir('site'); print(importlib.util.find_spec('keras_headattn').origin)"


def test_an_editable_install_works_beside_its_clone(tmp_path):
    """There, the clone is a folder of the package's name, without an `__init__.py`, which comes first on the path."""
    clone = tmp_path / "keras_headattn"
    shutil.copytree(ROOT / "keras_headattn", clone / "keras_headattn", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / file, clone)
    run = {"check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-c", BUILD, str(tmp_path)], cwd=clone, **run)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Without `site`: the tests' own installation is not found.
    found = subprocess.run([sys.executable, "-S", "-c", FIND], cwd=tmp_path, env=environment, **run)
    assert found.stdout.strip() == str(clone / "keras_headattn" / "__init__.py")
