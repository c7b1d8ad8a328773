"""TensorFlow Serving in a container, and requests to it over REST."""

import base64
import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np

LOAD_SECONDS = 180


def answers(image, export):
    """Serves an `Export` as docs/serving.md does; returns its answers, or an error's text."""
    try:
        with container(image, export.path.parent) as url:
            return ask_all(url, "model", export.requests)
    except (OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def container(image, folder):
    """Runs an image of TensorFlow Serving with a model's folder; yields its address."""
    command = ["docker", "run", "--detach", "--publish", "127.0.0.1::8501"]
    command += ["--volume", f"{folder}:/models/model:ro", "--env", "MODEL_NAME=model", image]
    name = _run(command)
    try:
        url = f"http://{_run(['docker', 'port', name, '8501/tcp']).splitlines()[0]}"
        _wait(name, f"{url}/v1/models/model")
        yield url
    finally:
        _run(["docker", "rm", "--force", name])


def _run(command):
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:2])}: {process.stderr.strip()}")
    return process.stdout.strip()


def _wait(name, url):
    """Waits until a model is served; what the server printed is the error if it ends or takes too long."""
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["model_version_status"][0]["state"] == "AVAILABLE":
                    return
        if _run(["docker", "inspect", "--format", "{{.State.Running}}", name]) != "true":
            break
        time.sleep(0.5)
    process = subprocess.run(["docker", "logs", name], capture_output=True, text=True)
    raise RuntimeError(f"no version is served: {process.stderr[-1000:]}")


def ask_all(url, name, requests):
    """Returns the answers to requests `(signature, inputs)` in columns: a list of dictionaries of arrays.

    The signatures' outputs are read from the server, as an answer of one output has no name.
    """
    with urllib.request.urlopen(f"{url}/v1/models/{name}/metadata", timeout=60) as answer:
        signatures = json.load(answer)["metadata"]["signature_def"]["signature_def"]
    found = []
    for signature, inputs in requests:
        columns = {key: _to_json(value) for key, value in inputs.items()}
        body = json.dumps({"signature_name": signature, "inputs": columns}).encode()
        outputs = _answer(urllib.request.Request(f"{url}/v1/models/{name}:predict", body))["outputs"]
        specs = signatures[signature]["outputs"]
        if len(specs) == 1:
            outputs = {next(iter(specs)): outputs}
        found.append({key: _from_json(value, specs[key]["dtype"]) for key, value in outputs.items()})
    return found


def _answer(request):
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()) from None


def _to_json(value):
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    return {"b64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


def _from_json(value, dtype):
    if dtype != "DT_STRING":
        return np.array(
            value, {"DT_FLOAT": "float32", "DT_BOOL": "bool", "DT_INT32": "int32", "DT_INT64": "int64"}[dtype]
        )
    encode = np.vectorize(lambda text: text.encode("utf-8"), otypes=[object])
    return encode(np.array(value, object))
