"""A local server of SavedModels, with a page that shows where their heads look.

    python -m recipes.serve saved_models/translate
    python -m recipes.serve saved_models                    all that are there
    python -m recipes.serve saved_models/translate saved_models/other --port 8600 --keep 2

It speaks TensorFlow Serving's REST API, for trials and tests on this machine. Production is TensorFlow Serving, which
serves the same folders. A model is named after its folder; NAME=FOLDER gives it another name. New versions are taken up
as they appear. Ctrl-C or SIGTERM ends it once the requests that have come are answered.

The page is at the address that is printed. It shows the maps of models that were exported with the signature
`attention`, as those of recipes.translate and recipes.classify are.
"""

import argparse
import contextlib
import gc
import logging
import pathlib
import re
import signal
import sys

from keras_headattn._files import read_json
from recipes.engine.command import one_line_errors
from recipes.engine.quiet import quiet_tensorflow
from recipes.serve.app import LOOPBACK, listen, make_server
from recipes.serve.models import Model, is_version


def main(arguments=None):
    options = _parser().parse_args(arguments)
    with one_line_errors():
        folders = _find_models(options.models)
        _check(options)
        print(f"Loading {', '.join(folders)}", flush=True)
        quiet_tensorflow()
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout)
        with listen(options.host, options.port) as listener:  # before models are loaded, which takes long
            models = {name: Model(name, folder, options.keep) for name, folder in folders.items()}
            for model in models.values():
                model.poll()
                if not model.loaded:
                    logging.warning("%s: there is no version in %s yet", model.name, model.folder)
            gc.freeze()  # imported modules: collecting garbage there would delay requests by most of a second
            _print_addresses(models, options.host, listener.getsockname()[1])
            server = make_server(models, options.host, options.origin, options.max_bytes, options.max_seconds)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it once it has answered all requests
                server.run([listener])
        print("Stopped.", flush=True)


def _print_addresses(models, host, port):
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    lines = [f"The page: {url}/", *(f"REST:     {url}/v1/models/{name}:predict" for name in models)]
    if host not in LOOPBACK:
        lines.append(f"Anyone who reaches {host} may ask it: it has no accounts and no encryption.")
    print(*lines, "For trials and tests; production is TensorFlow Serving. Ctrl-C ends it.", sep="\n", flush=True)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="+", metavar="FOLDER", help="folder of a model's versions, or of several models; or NAME=FOLDER"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on [127.0.0.1: this machine alone]")
    parser.add_argument("--port", type=int, default=8501, help="0: any that is free [8501]")
    parser.add_argument("--keep", type=int, default=1, help="how many of the latest versions are served [1]")
    parser.add_argument("--max-bytes", type=int, default=8 * 2**20, help="most bytes of a request [8388608]")
    parser.add_argument("--max-seconds", type=float, default=60, help="for the answer to a request [60]")
    parser.add_argument(
        "--origin",
        nargs="*",
        default=[],
        metavar="URL",
        help="pages elsewhere that may ask this server, and servers that its page may ask, such as "
        "http://gpu.example:8501 [none but those of this machine]",
    )
    return parser


def _check(options):
    if not 0 <= options.port < 2**16:
        raise ValueError(f"A port must be from 0 to 65,535. Received: {options.port}")
    for name in ("keep", "max_bytes", "max_seconds"):
        if not getattr(options, name) > 0:
            raise ValueError(f"--{name.replace('_', '-')} must be positive. Received: {getattr(options, name)}")
    for origin in options.origin:
        if not re.fullmatch(r"https?://[\w.\-\[\]:]+", origin):
            raise ValueError(f"--origin must be like http://localhost:8501, without a path. Received: {origin}")


def _find_models(arguments):
    """Returns the folders of models by name; a folder of several models stands for all of them."""
    models = {}
    for argument in arguments:
        name, _, folder = argument.rpartition("=")
        path = pathlib.Path(folder)
        if path.is_file():  # saved_models/* includes README.md
            continue
        if not path.is_dir():
            raise NotADirectoryError(f"There is no folder of SavedModels of this name. Received: {argument}")
        if (path / "saved_model.pb").exists():
            raise ValueError(f"Give the folder of all versions, {path.parent}. Received: {path}, one of them")
        folders = [child for child in sorted(path.iterdir()) if child.is_dir()]
        inside = [] if name or any(map(is_version, folders)) else [child for child in folders if _has_versions(child)]
        for candidate in [path] if inside or _has_versions(path) else [path, *folders]:
            _check_no_run(candidate, argument)
        for model_path in inside or [path]:
            model_name = name or model_path.resolve().name
            if model_name in models:
                raise ValueError(
                    f"Two models have the name {model_name}: give one another, NAME=FOLDER. Received: {argument}"
                )
            if not re.fullmatch(r"[^/:?#%\s]+", model_name):
                raise ValueError(f"A model's name must fit a URL: give another, NAME=FOLDER. Received: {model_name}")
            models[model_name] = model_path
    if not models:
        raise ValueError(f"There is no folder of SavedModels. Received: {', '.join(arguments)}")
    return models


def _has_versions(folder):
    return any(map(is_version, folder.iterdir()))


def _check_no_run(folder, argument):
    """Raises an error that says where the SavedModels of a run are."""
    path = folder / "config.json"
    values = read_json(path) if path.is_file() else None
    if isinstance(values, dict) and "recipe" in values:
        where = f"write one by: python -m recipes.{values['recipe']} export {folder} --export saved_models/NAME"
        if exported := values.get("export"):
            where = f"its SavedModels are in {exported.replace('{run}', folder.resolve().name)}"
        raise ValueError(f"{folder} is a run, no SavedModel; {where}. Received: {argument}")


if __name__ == "__main__":
    main()
