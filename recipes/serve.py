"""A local server of SavedModels, with a page that shows where their heads look.

    python -m recipes.serve saved_models/translate
    python -m recipes.serve saved_models                    all that are there
    python -m recipes.serve saved_models/translate saved_models/other --port 8600
    python -m recipes.serve saved_models/translate --keep 2 --label stable=1

It speaks TensorFlow Serving's REST API, for trials and tests on this machine. Production is TensorFlow Serving, which
serves the same folders. A model is named after its folder; NAME=FOLDER gives it another name. New versions are taken up
as they appear. Ctrl-C or SIGTERM ends it once the requests that have come are answered.

/metrics has metrics for Prometheus, and /healthz answers 200 once every model has a version.

The page is at the address that is printed. It shows the maps of models that were exported with the signature
`attention`, as those of recipes.translate and recipes.classify are.
"""

import argparse
import gc
import logging
import pathlib
import sys

from keras_headattn._files import read_json
from keras_headattn._optional import optional_import
from keras_headattn.serving import Server
from recipes.engine.command import one_line_errors
from recipes.engine.quiet import quiet_tensorflow


def main(arguments=None):
    options = _parser().parse_args(arguments)

    with one_line_errors():
        models = _models(options.models)
        _check_ports(options.port, options.grpc_port or 0)
        labels = dict(map(_label, options.label))
        for package in ("starlette", "uvicorn", "prometheus_client"):
            optional_import(package, extra="serving")
        print(f"Loading {', '.join(models)}", flush=True)
        quiet_tensorflow()

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout)
        server = Server(
            models,
            host=options.host,
            port=options.port,
            keep=options.keep,
            labels=labels,
            max_bytes=options.max_bytes,
            max_seconds=options.max_seconds,
            rate=options.rate,
            origins=options.origin,
            grpc_port=options.grpc_port,
        )
        gc.freeze()  # imported modules: collecting garbage there would delay requests by most of a second
        server.start()
        print(f"The page: {server.url}/", flush=True)
        for name in models:
            print(f"REST:     {server.url}/v1/models/{name}:predict", flush=True)
        if server.grpc_port is not None:
            print(f"gRPC:     {options.host}:{server.grpc_port}", flush=True)
        if options.host not in ("127.0.0.1", "localhost", "::1"):
            print(f"Anyone who reaches {options.host} may ask it: it has no accounts and no encryption.", flush=True)
        print("For trials and tests; production is TensorFlow Serving. Ctrl-C ends it.", flush=True)
        server.serve()
        print("Stopped.", flush=True)


def _check_ports(*ports):
    for port in ports:
        if not 0 <= port < 2**16:
            raise ValueError(f"A port must be from 0 to 65,535. Received: {port}")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="+", metavar="FOLDER", help="folder of a model's versions, or of several models; or NAME=FOLDER"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on [127.0.0.1: this machine alone]")
    parser.add_argument("--port", type=int, default=8501, help="0: any that is free [8501]")
    parser.add_argument(
        "--grpc-port",
        type=int,
        help="for gRPC too, with tensorflow-serving-api; 0: any that is free [none]",
    )
    parser.add_argument("--keep", type=int, default=1, help="how many of the latest versions are served [1]")
    parser.add_argument(
        "--label", nargs="*", default=[], metavar="LABEL=VERSION", help="names of versions, for URLs [none]"
    )
    parser.add_argument("--max-bytes", type=int, default=8 * 2**20, help="most bytes of a request [8388608]")
    parser.add_argument("--max-seconds", type=float, default=60, help="for the answer to a request [60]")
    parser.add_argument("--rate", type=float, default=1000, help="most requests a second from one address [1000]")
    parser.add_argument(
        "--origin",
        nargs="*",
        default=[],
        metavar="URL",
        help="pages elsewhere that may ask this server, and servers that its page may ask, such as "
        "http://gpu.example:8501 [none but those of this machine]",
    )
    return parser


def _models(given):
    """Folders of models by name; a folder of several models stands for all of them."""
    models, files = {}, []
    for each in given:
        name, _, folder = each.rpartition("=")
        path = pathlib.Path(folder)
        if path.is_file():  # saved_models/* includes README.md
            files.append(each)
            continue
        if not path.is_dir():
            raise NotADirectoryError(f"There is no folder of SavedModels of this name. Received: {each}")
        _check_no_run(path)
        for own_name, own_path in _inside(path) if not name else [(name, path)]:
            if own_name in models:
                raise ValueError(
                    f"Two models have the name {own_name}: give one another, by NAME=FOLDER. Received: {each}"
                )
            models[own_name] = str(own_path)
    if not models:
        raise ValueError(f"There is no folder of SavedModels. Received: {', '.join(files)}")
    return models


def _inside(folder):
    """Names and paths of the models of a folder: itself, or those one level down, if it has no version of its own."""
    inside = [] if _has_versions(folder) else [path for path in _folders(folder) if _has_versions(path)]
    if not inside and not _has_versions(folder):
        _check_no_runs(folder)
    return [(path.name, path) for path in sorted(inside)] or [(folder.resolve().name, folder)]


def _has_versions(folder):
    return any(path.name.isascii() and path.name.isdecimal() for path in _folders(folder))


def _folders(folder):
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _check_no_run(folder):
    if where := _exports(folder):
        raise ValueError(f"That is a run; {where}. Received: {folder}")


def _check_no_runs(folder):
    runs = {path.name: where for path in sorted(_folders(folder)) if (where := _exports(path))}
    if runs:
        shown = "; ".join(f"of {name}, {where}" for name, where in runs.items())
        raise ValueError(f"That is a folder of runs, not of SavedModels: {shown}. Received: {folder}")


def _exports(folder):
    """Returns where the SavedModels of a run are, in words; `None` if the folder is no run."""
    path = folder / "config.json"
    values = read_json(path) if path.is_file() else None
    if not isinstance(values, dict) or "recipe" not in values:
        return None
    if exported := values.get("export"):
        return f"its SavedModels are in {exported.replace('{run}', folder.resolve().name)}"
    return f"write one by: python -m recipes.{values['recipe']} export {folder} --export saved_models/NAME"


def _label(given):
    label, equals, version = given.partition("=")
    if not equals or not (version.isascii() and version.isdecimal()):
        raise ValueError(f"--label takes names of versions, such as stable=1. Received: {given}")
    return label, int(version)


if __name__ == "__main__":
    main()
