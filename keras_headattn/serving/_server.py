"""A local server of SavedModels that speaks TensorFlow Serving's REST API, for trials and tests."""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import json
import logging
import pathlib
import re
import signal
import socket
import threading
import time
import urllib.parse

from keras_headattn._attention_page import page_files
from keras_headattn._validation import positive
from keras_headattn.serving._server_grpc import start_grpc
from keras_headattn.serving._server_json import (
    RequestError,
    error_json,
    parse,
    signature_name,
    to_json,
    to_tensors,
    wrong,
)
from keras_headattn.serving._server_models import ServedModel

log = logging.getLogger("keras_headattn.serving")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_HEADER_BYTES, MOST_CONNECTIONS, MOST_WAITING = 16_384, 512, 1024
IDLE_SECONDS, POLL_SECONDS, GRACE_SECONDS = 60, 1.0, 10
LARGE = 65_536  # bytes of a body that is read and written beside the loop
REASONS = {
    100: "Continue",
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?:/(?P<metadata>metadata)|:(?P<method>predict|classify|regress))?",
    re.IGNORECASE,
)


@dataclasses.dataclass
class _Request:
    method: str
    path: str
    headers: dict
    body: bytes
    keep: bool


class Server:
    """Serves SavedModels on this machine, as TensorFlow Serving does over REST.

    It is for trials and tests: one process of Python, without encryption or accounts. Production is TensorFlow Serving.

    It answers `GET /v1/models/NAME`, `GET /v1/models/NAME/metadata` and `POST /v1/models/NAME:predict`, each also with
    `/versions/N` or `/labels/L` after the name, in rows (`instances`) and in columns (`inputs`). Versions that appear
    in a folder are loaded, and those that vanish are let go. One that cannot be loaded is reported, and the older one
    stays. Requests that wait for the same signature run together. `/` is a page that shows what models attend to.

    Args:
        models: dictionary of a name to the folder of its versions.
        host: str, the address to listen on. Default `"127.0.0.1"`: this machine alone.
        port: int; 0: any that is free. Default 8501, that of TensorFlow Serving.
        keep: int, how many of the latest versions of each model are served. Default 1.
        labels: dictionary of a label to a version, of all models. Default `None`: there are none.
        max_batch: int, most rows that run together. Default 64.
        max_rows: int, most rows of a request. Default 1024.
        max_bytes: int, most bytes of a request. Default 8 MiB.
        max_text: int, most bytes of a text. Default 65,536.
        max_seconds: number, for the answer to a request. Default 60.
        read_seconds: number, for the arrival of a request. Default 10.
        rate: number, requests a second from one address. Default 1000.
        origins: list of str, such as `"http://localhost:8601"`, of other pages that may ask this server, and other
            servers that its own page may ask. Default `()`.
        grpc_port: int, for TensorFlow Serving's gRPC services, with the package tensorflow-serving-api; 0: any that is
            free. Default `None`: there are none.

    Attributes:
        url: str, such as `"http://127.0.0.1:8501"`, once it is started.

    Raises:
        ValueError: naming the argument and what was received.
        OSError: if it cannot listen; raised by `start`.
        ImportError: if gRPC is asked for and tensorflow-serving-api is not installed; raised by `start`.

    Example:

    ```python
    with Server({"demo": "saved_models/demo"}, port=0) as server:
        body = json.dumps({"instances": ["the cat sat"]}).encode()
        answer = urllib.request.urlopen(f"{server.url}/v1/models/demo:predict", body)
    ```
    """

    def __init__(
        self,
        models,
        host="127.0.0.1",
        port=8501,
        keep=1,
        labels=None,
        max_batch=64,
        max_rows=1024,
        max_bytes=8 * 2**20,
        max_text=65_536,
        max_seconds=60,
        read_seconds=10,
        rate=1000,
        origins=(),
        grpc_port=None,
    ):
        if not models:
            raise ValueError(f"`models` must name at least one folder. Received: models={models}")
        for name, folder in models.items():
            _check_folder(name, pathlib.Path(folder))
        numbers = dict(keep=keep, max_batch=max_batch, max_rows=max_rows, max_bytes=max_bytes, max_text=max_text)
        for argument, value in numbers.items():
            positive(argument, value)
        for origin in origins:
            if not re.fullmatch(r"https?://[\w.\-\[\]:]+", origin):
                raise ValueError(
                    f"`origins` are such as http://localhost:8501, without a path. Received: origin={origin!r}"
                )
        self.models = {
            name: ServedModel(name, folder, keep, labels or {}, max_batch) for name, folder in models.items()
        }
        self.host, self.port, self.grpc_port = host, port, grpc_port
        self.max_rows, self.max_bytes, self.max_text = max_rows, max_bytes, max_text
        self.max_seconds, self.read_seconds, self.rate = max_seconds, read_seconds, rate
        self.origins = tuple(origins)
        self.url = None
        self._pages = page_files(self.origins)
        self._allowances = {}  # of an address: requests it may send now, and since when
        self._connections = {}  # task to whether it is at work
        self._waiting = collections.Counter()
        self._stopping = False
        self._thread = self._grpc = None

    def start(self):
        """Loads the models, listens, and returns: the server runs in a thread of its own."""
        self._check_ports()
        for model in self.models.values():
            model.poll()
            if not model.loaded:
                log.warning("%s: there is no version in %s yet", model.name, model.folder)
        ready = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)), name="server", daemon=True)
        self._thread.start()
        ready.result()
        if self.grpc_port is not None:
            try:
                self._grpc, self.grpc_port = start_grpc(self, self.grpc_port)
            except BaseException:
                self.stop()
                raise
        return self

    def _check_ports(self):
        """Reports a port that is taken before models are loaded, which takes long."""
        for option, port in (("--port", self.port), ("--grpc-port", self.grpc_port)):
            try:
                if port:
                    _try_port(self.host, port)
            except (OSError, OverflowError) as error:
                raise _taken(option, self.host, port, error) from error

    def stop(self):
        """Listens no more, answers the requests that have come, and ends."""
        if self._grpc is not None:
            self._grpc.stop(GRACE_SECONDS).wait()
        if self._thread is not None and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.stop()

    def serve(self):
        """Serves until Ctrl-C or SIGTERM, then ends as `stop` does. It belongs in the main thread."""
        ended = threading.Event()
        before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if self._thread is None:
                self.start()
            ended.wait()
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _main(self, ready):
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            listener = await asyncio.start_server(self._connected, self.host, self.port, limit=MOST_HEADER_BYTES)
        except (OSError, OverflowError) as error:
            ready.set_exception(_taken("--port", self.host, self.port, error))
            return
        self.port = listener.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="model") as self._executor:
            watching = asyncio.create_task(self._watch())
            ready.set_result(None)
            await self._stop.wait()
            self._stopping = True
            listener.close()
            watching.cancel()
            await self._finish_connections()

    async def _finish_connections(self):
        for task, is_at_work in list(self._connections.items()):
            if not is_at_work:
                task.cancel()
        if self._connections:
            _, late = await asyncio.wait(list(self._connections), timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()

    async def _watch(self):
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for model in self.models.values():
                try:
                    await asyncio.to_thread(model.poll)
                except Exception:
                    log.exception("%s: the folder cannot be watched", model.name)

    async def _connected(self, reader, writer):
        task = asyncio.current_task()
        self._connections[task] = False
        try:
            await self._converse(reader, writer, task)
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            pass
        except Exception:
            log.exception("A connection failed")
        finally:
            del self._connections[task]
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader, writer, task):
        """Answers the requests of a connection, one after the other."""
        address = (writer.get_extra_info("peername") or ("",))[0]
        while not self._stopping:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    first = await reader.read(1)
            except TimeoutError:
                return
            if not first:
                return
            self._connections[task] = True
            try:
                if len(self._connections) > MOST_CONNECTIONS:
                    raise RequestError(503, f"There are more than {MOST_CONNECTIONS} connections. Try again later.")
                request = await self._read(first, reader, writer)
            except RequestError as error:
                await self._write(writer, error.status, error_json(error.message), keep=False)
                await _discard(reader, writer)
                return
            status, body, headers = await self._answer(request, address)
            keep = request.keep and not self._stopping
            await self._write(writer, status, body, headers, keep)
            self._connections[task] = False
            if not keep:
                return

    async def _read(self, first, reader, writer):
        """A request, all of which must arrive in time."""
        try:
            async with asyncio.timeout(self.read_seconds):
                return await self._parse(first, reader, writer)
        except TimeoutError:
            raise RequestError(408, f"The request did not arrive within {self.read_seconds} seconds.") from None
        except asyncio.LimitOverrunError:
            raise RequestError(431, f"The header of a request may have {MOST_HEADER_BYTES:,} bytes.") from None
        except asyncio.IncompleteReadError as error:
            expected = "its header" if error.expected is None else f"its body of {error.expected:,} bytes"
            raise wrong(f"The request ended before {expected} did.") from None

    async def _parse(self, first, reader, writer):
        head = first + await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/"):
            raise wrong("The request is not one of HTTP.")
        method, target, protocol = parts
        if protocol not in ("HTTP/1.1", "HTTP/1.0"):
            raise RequestError(505, "The server speaks HTTP/1.1.")
        pairs = [line.partition(":") for line in lines[1:] if line]
        if any(not colon or name != name.strip() for name, colon, _ in pairs):
            raise wrong("A header of the request has no name.")
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._check_sender(headers)
        length = self._length(method, headers, [name.lower() for name, *_ in pairs])
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(length)
        closes = headers.get("connection", "").lower() == "close" or protocol == "HTTP/1.0"
        return _Request(method, target.partition("?")[0], headers, body, not closes)

    def _length(self, method, headers, names):
        if "transfer-encoding" in headers:
            raise RequestError(411, "Send the body in one piece, with its Content-Length.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(415, "Send the body as it is, without a Content-Encoding.")
        length = headers.get("content-length", "" if method == "POST" else "0")
        if not length.isascii() or not length.isdigit() or names.count("content-length") > 1 or len(length) > 18:
            status = 400 if length else 411
            raise RequestError(status, f"Content-Length must be a number of bytes. Received: {length[:40]!r}")
        if int(length) > self.max_bytes:
            raise RequestError(413, f"A request may have {self.max_bytes:,} bytes. Received: {int(length):,} bytes")
        return int(length)

    def _check_sender(self, headers):
        """Keeps pages of other hosts out: their scripts may ask this machine, and names may be made to mean it."""
        host = urllib.parse.urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if self.host in LOOPBACK and host not in LOOPBACK:
            raise RequestError(403, f"The server answers to {self.host} alone. Received: Host {host[:100]!r}")
        origin = headers.get("origin")
        if origin and origin not in self.origins and origin != f"http://{headers.get('host')}":
            raise RequestError(403, f"Pages of {origin[:100]} may not ask this server: see --origin.")

    async def _answer(self, request, address):
        """Status, body and headers."""
        origin = request.headers.get("origin")
        headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin in self.origins else {}
        try:
            self._count(address)
            if request.method == "OPTIONS" and headers:
                allowed = {"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "content-type"}
                return 204, b"", headers | allowed
            if request.path in self._pages and request.method == "GET":
                kind, body, own = self._pages[request.path]
                return 200, body, {"Content-Type": kind} | own | headers
            if request.path == "/models.json" and request.method == "GET":
                return 200, json.dumps({"models": [model.listed() for model in self.models.values()]}).encode(), headers
            async with asyncio.timeout(self.max_seconds):
                return 200, await self._api(request), headers
        except RequestError as error:
            if error.status in (429, 503):
                headers = {"Retry-After": "1"} | headers
            return error.status, error_json(error.message), headers
        except TimeoutError:
            return 504, error_json(f"The answer took longer than {self.max_seconds} seconds."), headers
        except Exception:
            log.exception("A request failed")
            return 500, error_json("The server failed: its log has the reason."), headers

    def _count(self, address):
        """Counts a request of an address, which may send `rate` of them a second."""
        now = time.monotonic()
        left, since = self._allowances.get(address, (max(1, self.rate), now))
        left = min(max(1, self.rate), left + (now - since) * self.rate)
        if len(self._allowances) > 1000:
            self._allowances.clear()
        self._allowances[address] = max(0, left - 1), now
        if left < 1:
            raise RequestError(429, f"An address may send {self.rate:g} requests a second.")

    async def _api(self, request):
        match = PATH.fullmatch(urllib.parse.unquote(request.path))
        method = match and match["method"]
        if not match or request.method != ("POST" if method else "GET"):
            shown = f"{request.method[:20]} {request.path[:200]}"
            raise RequestError(400 if request.path.lower().startswith("/v1/") else 404, f"Malformed request: {shown}")
        name, label, version = match["name"], match["label"], match["version"]
        version = int(version) if version and len(version) < 19 else version
        if match["metadata"]:
            return _metadata(name, *self.find(name, version, label))
        if not method:
            return json.dumps(self.status_of(name, version, label), indent=1).encode()
        return await self._predict(self.find(name, version, label)[1], method.lower(), request.body)

    async def _predict(self, version, method, body):
        asked = await self._beside(len(body), parse, body)
        signature = version.signature(signature_name(asked))
        if method != "predict":
            raise wrong(
                f"Expected {method} signature method_name to be tensorflow/serving/{method}. "
                "Was: tensorflow/serving/predict"
            )
        arrays, is_rows = await self._beside(len(body), to_tensors, asked, signature.inputs, self.max_text)
        outputs = await self.run(signature, arrays)
        return await self._beside(sum(array.nbytes for array in outputs.values()), to_json, outputs, is_rows)

    async def run(self, signature, arrays):
        """Runs a signature within the limits of the server, in its loop.

        Args:
            signature: `Signature`.
            arrays: dictionary of name to NumPy array.

        Returns:
            Dictionary of name to NumPy array.

        Raises:
            RequestError: if there are too many rows or requests, or the model refuses the values.
        """
        rows = signature.rows(arrays)
        most = self.max_rows if signature.batches or not signature.takes_rows else signature.max_batch
        if rows > most:
            raise wrong(f"A request to this signature may have {most} rows. Received: {rows} rows")
        if self._waiting[signature] >= MOST_WAITING:
            raise RequestError(503, "The batch scheduling queue to which this task was submitted is full.")
        self._waiting[signature] += 1
        try:
            return await signature.run(arrays, self._executor)
        finally:
            self._waiting[signature] -= 1
            if not self._waiting[signature]:
                del self._waiting[signature]

    def find(self, name, number=None, label=None):
        """Finds a version of a model that is served.

        Args:
            name: str, the model's.
            number: int, that of the version. Default `None`: the latest.
            label: str, of a version, in place of its number. Default `None`.

        Returns:
            Tuple of the number and the loaded version, whose `signature(name)` can be run.

        Raises:
            RequestError: if it is not served.
        """
        if name not in self.models:
            raise RequestError(404, f"Servable not found for request: Latest({name[:100]})")
        return self.models[name].find(number, label)

    def status_of(self, name, number=None, label=None):
        """The states of a model's versions, as the API has them.

        Args:
            name, number, label: as `find` takes them. Default `None`: all versions.

        Returns:
            Dictionary of `"model_version_status"` to a list of dictionaries, one a version.

        Raises:
            RequestError: if there is none.
        """
        if name not in self.models:
            raise RequestError(404, f"Could not find any versions of model {name[:100]}")
        return self.models[name].status(number, label)

    async def _beside(self, size, function, *arguments):
        """Calls a function, beside the loop where it takes long."""
        if size < LARGE:
            return function(*arguments)
        return await asyncio.to_thread(function, *arguments)

    async def _write(self, writer, status, body, headers=None, keep=True):
        common = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Connection": "keep-alive" if keep else "close",
        }
        lines = [f"{name}: {value}" for name, value in (common | (headers or {})).items()]
        head = "\r\n".join([f"HTTP/1.1 {status} {REASONS[status]}", *lines, "", ""])
        writer.write(head.encode("latin-1") + body)
        async with asyncio.timeout(self.max_seconds):
            await writer.drain()


def _try_port(host, port):
    """Raises the error of a port that is taken or forbidden. Others are left to whoever listens."""
    for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    raise


def _taken(option, host, port, error):
    reason = getattr(error, "strerror", None) or error
    return OSError(f"Give another {option} or --host. Received: {host}:{port} ({reason})")


async def _discard(reader, writer):
    """Reads what a sender still sends, so that it reads its answer."""
    with contextlib.suppress(OSError, TimeoutError):
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(2):
            while await reader.read(65_536):
                pass


def _metadata(name, number, version):
    spec = {"name": name, "signature_name": "", "version": str(number)}
    definitions = {"signature_def": {"signature_def": version.definitions}}
    return json.dumps({"model_spec": spec, "metadata": definitions}, indent=1).encode()


def _check_folder(name, folder):
    if not re.fullmatch(r"[^/:?#%\s]+", name):
        raise ValueError(f"`models` must have names that fit a URL. Received: {name!r}")
    if not folder.is_dir():
        raise ValueError(f"There is no folder of SavedModels. Received: {str(folder)!r}")
    if (folder / "saved_model.pb").exists():
        raise ValueError(
            f"Give the folder that has the versions, {str(folder.parent)!r}. Received: {str(folder)!r}, one of them"
        )
