"""Nothing on the console, unless the import fails: then everything."""

import pathlib
import subprocess
import sys

from recipes.engine import quiet

QUIET = f"import runpy; quiet = runpy.run_path({str(pathlib.Path(quiet.__file__))!r})['quiet_tensorflow']\n"


def run(code, cwd=None):
    command = [sys.executable, "-c", QUIET + code]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_silent_and_standard_error_restored():
    code = "import os, sys; quiet(); tf = sys.modules['tensorflow']; tf.constant(1.0) + 1; print(tf.__name__)\n"
    ran = run(code + "print('after', file=sys.stderr); os.write(2, b'and below')")
    assert (ran.stdout, ran.stderr) == ("tensorflow\n", "after\nand below")


def test_programs_of_xla_are_kept(tmp_path):
    code = "import os, sys; quiet('cache'); tf = sys.modules['tensorflow']\n"
    ran = run(
        code + "tf.function(lambda: tf.ones(2) * 3, jit_compile=True)(); print(len(os.listdir('cache')))", tmp_path
    )
    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_a_failing_import_shows_what_was_held_back(tmp_path):
    broken = "import os; os.write(2, b'library missing\\n'); raise ImportError('no')\n"
    (tmp_path / "tensorflow.py").write_text(broken)
    ran = run("quiet()", cwd=tmp_path)
    assert ran.returncode != 0
    assert "library missing" in ran.stderr and "ImportError: no" in ran.stderr
