"""A local server with TensorFlow Serving's REST API, for trials and tests."""

import logging
import pathlib
import re
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

from keras_headattn._files import Path
from keras_headattn._validation import check_number, check_positive
from keras_headattn.serving._server_app import GRACE_SECONDS, make_http
from keras_headattn.serving._server_grpc import make_grpc
from keras_headattn.serving._server_metrics import Metrics
from keras_headattn.serving._server_models import ServedModel

log = logging.getLogger("keras_headattn.serving")
POLL_SECONDS = 1.0


class Server:
    """Local server of SavedModels with TensorFlow Serving's REST API, for trials and tests.

    It is a single Python process without encryption or accounts: use TensorFlow Serving in production. It needs
    Starlette, uvicorn and prometheus-client (the extra `serving`).

    It answers `GET /v1/models/NAME`, `GET /v1/models/NAME/metadata` and `POST /v1/models/NAME:predict`, each also with
    `/versions/N` or `/labels/L` after the name, and takes rows (`instances`) or columns (`inputs`). New versions are
    loaded and deleted ones unloaded as the folders change; a damaged version is logged and the older one stays. Waiting
    requests for the same signature run as one batch. `/` is a page that shows attention maps, `/metrics` has metrics
    for Prometheus, and `/healthz` answers 200 once every model has a version.

    Args:
        models: dictionary from name to the folder of its versions.
        host: str, address to listen on. Default `"127.0.0.1"`: this machine only.
        port: int, 0 for any free port. Default 8501, TensorFlow Serving's.
        keep: int, latest versions of each model to serve. Default 1.
        labels: dictionary from label to version, for all models. Default `None`: no labels.
        max_batch: int, most rows that run together. Default 64.
        max_rows: int, most rows of a request. Default 1024.
        max_bytes: int, most bytes of a request. Default 8 MiB.
        max_text: int, most bytes of a text, but not of an image file. Default 65,536.
        max_seconds: number, time limit to answer a request, and for the client to read the answer. Default 60.
        read_seconds: number, time limit for the next request on a connection to begin, and for its body to arrive.
            Default 10.
        rate: number, most requests per second from one address. Default 1000.
        origins: list of str, such as `"http://localhost:8601"`: other pages that may query this server, and servers
            that its own page may query. Default `()`.
        grpc_port: int, port of TensorFlow Serving's gRPC services, 0 for any free port; needs tensorflow-serving-api.
            Default `None`: no gRPC.

    Attributes:
        url: str, such as `"http://127.0.0.1:8501"`, once started.

    Raises:
        ValueError: if an argument is invalid.
        OSError: in `start`, if it cannot listen.
        ImportError: in `start`, if a package is not installed.

    ```python
    with Server({"demo": "saved_models/demo"}, port=0) as server:
        body = json.dumps({"instances": ["the cat sat"]}).encode()
        answer = urllib.request.urlopen(f"{server.url}/v1/models/demo:predict", body)
    ```
    """

    def __init__(
        self,
        models: Mapping[str, Path],
        host: str = "127.0.0.1",
        port: int = 8501,
        keep: int = 1,
        labels: Mapping[str, int] | None = None,
        max_batch: int = 64,
        max_rows: int = 1024,
        max_bytes: int = 8 * 2**20,
        max_text: int = 65_536,
        max_seconds: float = 60,
        read_seconds: float = 10,
        rate: float = 1000,
        origins: Sequence[str] = (),
        grpc_port: int | None = None,
    ):
        if not models:
            raise ValueError(f"`models` must name at least one folder. Received: models={models}")
        for name, folder in models.items():
            _check_folder(name, pathlib.Path(folder))
        numbers = dict(keep=keep, max_batch=max_batch, max_rows=max_rows, max_bytes=max_bytes, max_text=max_text)
        for argument, value in numbers.items():
            check_positive(argument, value)
        for argument, value in dict(max_seconds=max_seconds, read_seconds=read_seconds, rate=rate).items():
            check_number(argument, value, above=0)
        for origin in origins:
            if not re.fullmatch(r"https?://[\w.\-\[\]:]+", origin):
                raise ValueError(
                    f"`origins` must be like http://localhost:8501, without a path. Received: origin={origin!r}"
                )
        self.models = {
            name: ServedModel(name, folder, keep, labels or {}, max_batch) for name, folder in models.items()
        }
        self.host, self.port, self.grpc_port = host, port, grpc_port
        self.max_rows, self.max_bytes, self.max_text = max_rows, max_bytes, max_text
        self.max_seconds, self.read_seconds, self.rate = max_seconds, read_seconds, rate
        self.origins = tuple(origins)
        self.url: str | None = None
        self.metrics: Any = None
        self._http: Any = None
        self._grpc: Any = None
        self._threads = []
        self._stopped = threading.Event()

    def start(self) -> Self:
        """Loads the models, starts to listen in background threads, and returns the server."""
        self.metrics = Metrics(self.models)
        self._http = make_http(self)
        listener = _listen(self.host, self.port)  # before models are loaded, which takes long
        try:
            if self.grpc_port is not None:
                self._grpc, self.grpc_port = make_grpc(self, self.grpc_port)
            for model in self.models.values():
                model.poll()
                if not model.loaded:
                    log.warning("%s: there is no version in %s yet", model.name, model.folder)
        except BaseException:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        self.url = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        self._threads = [
            threading.Thread(target=self._http.run, args=[[listener]], name="http"),
            threading.Thread(target=self._watch, name="watch"),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()
        if self._grpc is not None:
            self._grpc.start()
        return self

    def stop(self) -> None:
        """Stops listening, answers pending requests and ends the threads."""
        self._stopped.set()
        if self._grpc is not None:
            self._grpc.stop(GRACE_SECONDS).wait()
        if self._http is not None:
            self._http.should_exit = True
        for thread in self._threads:
            thread.join()

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.stop()

    def serve(self) -> None:
        """Serves until Ctrl-C or SIGTERM, then stops. Call it in the main thread."""
        ended = threading.Event()
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if not self._threads:
                self.start()
            ended.wait()
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _watch(self):
        while not self._stopped.wait(POLL_SECONDS):
            for model in self.models.values():
                try:
                    model.poll()
                except Exception:
                    log.exception("%s: the folder cannot be watched", model.name)


def _listen(host, port):
    try:
        if not 0 <= port < 2**16:
            raise OSError("a port is below 65,536")
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"Give another --port or --host. Received: {host}:{port} ({reason})") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    return listener


def _check_folder(name, folder):
    if not re.fullmatch(r"[^/:?#%\s]+", name):
        raise ValueError(f"`models` must have names that fit a URL. Received: {name!r}")
    if not folder.is_dir():
        raise ValueError(f"There is no folder of SavedModels. Received: {str(folder)!r}")
    if (folder / "saved_model.pb").exists():
        raise ValueError(
            f"Give the folder of all versions, {str(folder.parent)!r}. Received: {str(folder)!r}, one of them"
        )
