"""TensorFlow Serving's REST API and the page, as a Starlette application that uvicorn runs."""

import asyncio
import contextlib
import importlib.resources
import json
import socket

import uvicorn
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from recipes.serve.tensors import parse, to_json, to_tensors

PAGE = importlib.resources.files("keras_headattn") / "_page"
LOOPBACK = ["127.0.0.1", "localhost", "::1"]
POLL_SECONDS = 1.0
LARGE = 65_536  # bytes from which data are converted in another thread


def listen(host, port):
    """Returns a socket that listens."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(f"Give another --port or --host. Received: {host}:{port} ({error.strerror})") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    return listener


def make_server(models, host="127.0.0.1", origins=(), max_bytes=8 * 2**20, max_seconds=60):
    """Returns a `uvicorn.Server` of a dictionary from name to `Model`; `run([listen(host, port)])` serves them."""
    routes = [*_page_routes(origins), Route("/models.json", list_models), Route("/healthz", check_health)]
    for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
        routes.append(Route(path + ":predict", predict, methods=["POST"]))
        routes.append(Route(path + "/metadata", describe))
        routes.append(Route(path, report_status))
    # Other hosts' pages may point names of their own at this machine.
    hosts = [*LOOPBACK, "[::1]"] if host in LOOPBACK else ["*"]
    cors = dict(allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["Content-Type"])
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(OneLength),
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
            Middleware(CORSMiddleware, **cors),
        ],
        exception_handlers={HTTPException: _refused, ClientDisconnect: _left, Exception: _failed},
        lifespan=_watch,
    )
    app.state.models, app.state.origins = models, origins
    app.state.max_bytes, app.state.max_seconds = max_bytes, max_seconds
    config = uvicorn.Config(
        app,
        http=HalfClosable,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
        limit_concurrency=512,  # more are answered by 503
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


class HalfClosable(H11Protocol):
    """HTTP that answers a whole request of a client that has closed its sending side."""

    def eof_received(self):
        return self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)


class OneLength:
    """Middleware that refuses requests of two lengths: a proxy before the server may go by the other one.

    The connection is then closed, as RFC 9112, section 6.3, requires.
    """

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        answer = self.app
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            answer = _json({"error": "A request must have one of Content-Length and Transfer-Encoding."}, 400)
            answer.headers["Connection"] = "close"
        await answer(scope, receive, send)


def _page_routes(origins):
    """Returns the routes of the page, which may query this machine and `origins` alone."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        f"connect-src 'self' {' '.join(['http://127.0.0.1:*', 'http://localhost:*', *origins])}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    kinds = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}
    bodies = {path: (PAGE / (path[1:] or "page.html")).read_bytes() for path in kinds}
    return [
        Route(path, Response(bodies[path], headers=headers, media_type=kind), methods=["GET"])
        for path, kind in kinds.items()
    ]


@contextlib.asynccontextmanager
async def _watch(app):
    """Loads and unloads versions as the folders of the models change."""

    async def poll():
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for model in app.state.models.values():
                await asyncio.to_thread(model.poll)

    task = asyncio.create_task(poll())
    yield
    task.cancel()


async def list_models(request):
    return _json({"models": [model.listed() for model in request.app.state.models.values()]})


async def check_health(request):
    missing = [model.name for model in request.app.state.models.values() if not model.loaded]
    if missing:
        raise HTTPException(503, f"No version is loaded of {', '.join(missing)}.")
    return _json({"status": "ok"})


async def report_status(request):
    return _json({"model_version_status": _model(request).status(request.path_params.get("version"))})


async def describe(request):
    model = _model(request)
    number, version = model.find(request.path_params.get("version"))
    options = dict(preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    signatures = {name: json_format.MessageToDict(proto, **options) for name, proto in version.definitions.items()}
    spec = {"name": model.name, "signature_name": "", "version": str(number)}
    return _json({"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}})


async def predict(request):
    state = request.app.state
    # Pages of other hosts cannot read answers anyway, but could keep the model busy.
    allowed = {f"http://{request.headers.get('host')}", *state.origins}
    if foreign := set(request.headers.getlist("origin")) - allowed:
        raise HTTPException(403, f"Pages of {foreign.pop()[:100]} may not ask this server: see --origin.")
    _, version = _model(request).find(request.path_params.get("version"))
    try:
        async with asyncio.timeout(state.max_seconds):
            body = await _read(request, state.max_bytes)
            signature, arrays, is_rows = await _beside(len(body), _inputs_of, version, body)
            outputs = await signature.run(arrays)
            size = sum(array.nbytes for array in outputs.values())
            return _json(await _beside(size, to_json, outputs, is_rows))
    except TimeoutError:
        raise HTTPException(504, f"The request took longer than {state.max_seconds} seconds.") from None


def _inputs_of(version, body):
    request = parse(body)
    name = request.get("signature_name") or "serving_default"
    if name not in version.signatures:
        raise HTTPException(400, f"There is no signature {name[:100]!r}.")
    signature = version.signatures[name]
    return signature, *to_tensors(request, signature.inputs)


def _model(request):
    models, name = request.app.state.models, request.path_params["name"]
    if name not in models:
        raise HTTPException(404, f"There is no model {name[:100]!r}.")
    return models[name]


async def _read(request, max_bytes):
    """Returns the body of a request, read no further than `max_bytes`."""
    body, size = bytearray(), int(request.headers.get("content-length", 0))
    if size <= max_bytes:
        async for chunk in request.stream():
            body += chunk
            if (size := len(body)) > max_bytes:
                break
        else:
            return bytes(body)
    raise HTTPException(413, f"A request may have {max_bytes:,} bytes. Received: {size:,} bytes")


async def _beside(size, function, *args):
    """Calls a function, in another thread if its data are large."""
    return function(*args) if size < LARGE else await asyncio.to_thread(function, *args)


async def _refused(request, error):
    return _json({"error": error.detail}, error.status_code)


async def _left(request, error):
    return _json({"error": "The client has gone."}, 400)


async def _failed(request, error):
    return _json({"error": "The server failed: its log has the reason."}, 500)


def _json(value, status=200):
    body = value if isinstance(value, bytes) else json.dumps(value, indent=1)
    return Response(body, status, media_type="application/json")
