"""Processes of Python that begin with TensorFlow imported, which takes longest."""

import multiprocessing
import multiprocessing.connection
import os
import pathlib
import runpy
import socket
import subprocess
import sys
import tempfile
import time

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
        wait([process])
        outputs = (path.read_text(encoding="utf-8") for path in streams[1:])
        return subprocess.CompletedProcess(arguments, process.exitcode, *outputs)


def wait(processes, seconds=600):
    """Waits until all have ended and returns their exit codes; kills what then still runs, whose code is -9."""
    running, deadline = {process.sentinel for process in processes}, time.monotonic() + seconds
    try:
        while running and time.monotonic() < deadline:
            running -= set(multiprocessing.connection.wait(running, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.join()
    return [process.exitcode for process in processes]


def free_addresses(number):
    """Addresses of this machine that nothing listens on."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(number)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


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
