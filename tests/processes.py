"""Processes of Python that begin with TensorFlow imported, which takes longest."""

import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tensorflow", "keras", "tensorflow_text"])


def run_python(*arguments, stdin=""):
    """Runs `python -m MODULE ...` or `python -c CODE` in the project's folder, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [pathlib.Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin, encoding="utf-8")
        process = CONTEXT.Process(target=_run, args=([*map(str, arguments)], streams))
        process.start()
        process.join()
        outputs = (path.read_text(encoding="utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(arguments, process.exitcode, *outputs)


def _run(arguments, streams):
    for descriptor, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin = open(0, encoding="utf-8")
    os.chdir(ROOT)
    option, program, *sys.argv[1:] = arguments
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(program, {"__name__": "__main__"})
