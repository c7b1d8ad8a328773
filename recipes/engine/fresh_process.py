"""Python code in a process that has nothing imported, as a server begins."""

import json
import os
import subprocess
import sys


def try_out(code, path, *arguments):
    """Tries a SavedModel out in a fresh process.

    Args:
        code: str, a program that reads `[path, *arguments]` as JSON from standard input and prints its result as JSON.
        path: of the SavedModel.
        *arguments: what JSON can hold.

    Returns:
        The result.

    Raises:
        OSError: with what the process wrote, if it fails.
    """
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([str(path), *arguments]),
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},  # this process has the GPUs' memory
    )
    if process.returncode:
        raise OSError(f"The SavedModel in {path} does not load by itself:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])
