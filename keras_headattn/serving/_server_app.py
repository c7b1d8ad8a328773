"""The local server's REST API and page, as a Starlette application on uvicorn."""

import asyncio
import collections
import functools
import json
import re
import time

from keras_headattn._attention_page import page_files
from keras_headattn._optional import optional_import
from keras_headattn.serving._server_json import (
    RequestError,
    bad_request,
    parse,
    signature_name,
    to_json,
    to_tensors,
)
from keras_headattn.serving._server_models import find_version, status_of
from keras_headattn.serving._versions import is_version

LOOPBACK = ["127.0.0.1", "localhost", "::1"]
MOST_HEADER_BYTES, MOST_REQUESTS, GRACE_SECONDS = 16_384, 512, 10
# More connections than requests, so that the surplus is answered; the backlog is accepted before it is counted.
MOST_CONNECTIONS, BACKLOG = 576, 256
CLIENT_LEFT = 499  # the status that proxies note then
LARGE = 65_536  # bytes from which data are processed in another thread


def make_http(server):
    uvicorn = optional_import("uvicorn", extra="serving")
    optional_import("starlette", extra="serving")
    config = uvicorn.Config(
        Api(server).application(),
        http=_connection_class(server.read_seconds, server.max_seconds),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # use the sockets' addresses
        server_header=False,
        headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
        limit_concurrency=MOST_REQUESTS,
        backlog=BACKLOG,
        timeout_keep_alive=server.read_seconds,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )
    return uvicorn.Server(config)


def _half_closable():
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class HalfClosable(H11Protocol):
        """Protocol that answers clients that have sent all of a request and closed their side."""

        _ended = False

        def eof_received(self):
            self._ended = self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)
            return self._ended

        def on_response_complete(self):
            super().on_response_complete()
            if self._ended and self.cycle.response_complete:
                self.transport.close()

    return HalfClosable


def _connection_class(read_seconds, write_seconds):
    class Connection(_half_closable()):
        """Connection that closes if no request begins in time or the client does not read the answer."""

        def connection_made(self, transport):
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # pause as soon as the client does not read
            self._writing = None
            self._reading = self.loop.call_later(read_seconds, transport.abort)
            if len(self.connections) > MOST_CONNECTIONS:
                transport.abort()

        def handle_events(self):
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._reading.cancel()

        def on_response_complete(self):
            self._reading.cancel()
            self._reading = self.loop.call_later(read_seconds, self.transport.abort)
            super().on_response_complete()

        def pause_writing(self):
            super().pause_writing()
            self._writing = self.loop.call_later(write_seconds, self.transport.abort)

        def resume_writing(self):
            super().resume_writing()
            self._writing.cancel()

        def connection_lost(self, error):
            super().connection_lost(error)
            self._reading.cancel()
            if self._writing is not None:
                self._writing.cancel()

    return Connection


class Api:
    def __init__(self, server):
        self.server = server
        self._second, self._counts = 0, collections.Counter()

    def application(self):
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.middleware.cors import CORSMiddleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response
        from starlette.routing import Route

        routes = [
            Route(path, Response(body, headers=headers, media_type=kind), methods=["GET"])
            for path, (kind, body, headers) in page_files(self.server.origins).items()
        ]
        for path, answer in (("/models.json", self.list), ("/metrics", self.metrics), ("/healthz", self.health)):
            routes.append(Route(path, answer))
        for version in ("", "/versions/{version}", "/labels/{label}"):
            path = "/v1/models/{name}" + version
            routes.append(Route(path + ":{method}", self.predict, methods=["GET", "POST"]))
            routes.append(Route(path + "/metadata", self.metadata))
            routes.append(Route(path, self.status))
        # Other hosts' pages may point names of their own at this machine.
        hosts = [*LOOPBACK, "[::1]"] if self.server.host in LOOPBACK else ["*"]
        cors = dict(allow_origins=self.server.origins, allow_methods=["GET", "POST"], allow_headers=["Content-Type"])
        return Starlette(
            routes=routes,
            middleware=[
                Middleware(_well_formed),
                Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
                Middleware(CORSMiddleware, **cors),
                Middleware(self.counted),
                Middleware(self.guard),
            ],
            exception_handlers={
                RequestError: self.refused,
                HTTPException: self.malformed,
                ClientDisconnect: self.left,
                Exception: self.failed,
            },
        )

    def counted(self, app):
        """Counts requests to the API, and their statuses."""

        async def answer(scope, receive, send):
            request = scope["metrics"] = self.server.metrics.begin("rest")
            code = CLIENT_LEFT

            async def sending(message):
                nonlocal code
                code = message.get("status", code)
                await send(message)

            try:
                await app(scope, receive, sending)
            except Exception:
                code = 500
                raise
            finally:
                if scope["path"].startswith("/v1/"):
                    request.end(code)

        return answer

    def guard(self, app):
        """Refuses requests from other pages' scripts, and from addresses that ask too often."""
        from starlette.datastructures import Headers

        async def guarded(scope, receive, send):
            headers = Headers(scope=scope)
            allowed = {f"http://{headers.get('host')}", *self.server.origins}
            foreign = [origin for origin in headers.getlist("origin") if origin not in allowed]
            answer = app
            if foreign:
                answer = _error(403, f"Pages of {foreign[0][:100]} may not ask this server: see --origin.")
            elif not self._allows(scope["client"]):
                answer = _error(429, f"An address may send {self.server.rate:g} requests a second.")
            await answer(scope, receive, send)

        return guarded

    def _allows(self, client):
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._counts = second, collections.Counter()
        address = client[0] if client else ""
        self._counts[address] += 1
        return self._counts[address] <= max(1, self.server.rate)

    async def failed(self, request, error):
        return _error(500, "The server failed: its log has the reason.")

    async def left(self, request, error):
        return _error(CLIENT_LEFT, "The client has gone.")

    async def refused(self, request, error):
        return _error(error.status, error.message)

    async def malformed(self, request, error=None):
        path = request.scope["path"]
        status = 400 if path.lower().startswith("/v1/") else 404
        return _error(status, f"Malformed request: {request.method[:20]} {path[:200]}")

    async def list(self, request):
        return _json({"models": [model.listed() for model in self.server.models.values()]})

    async def metrics(self, request):
        from starlette.responses import Response

        return Response(self.server.metrics.text(), media_type=self.server.metrics.content_type)

    async def health(self, request):
        missing = [model.name for model in self.server.models.values() if not model.loaded]
        if missing:
            return _error(503, f"No version is loaded of {', '.join(missing)}.")
        return _json({"status": "ok"})

    async def status(self, request):
        return _json(status_of(self.server.models, **_which(request)))

    async def metadata(self, request):
        from google.protobuf import json_format

        number, version = find_version(self.server.models, **_which(request))
        options = dict(preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        signatures = {name: json_format.MessageToDict(proto, **options) for name, proto in version.protos.items()}
        spec = {"name": request.path_params["name"], "signature_name": "", "version": str(number)}
        return _json({"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}})

    async def predict(self, request):
        method = request.path_params["method"].lower()
        if method not in ("predict", "classify", "regress") or request.method != "POST":
            return await self.malformed(request)
        if method != "predict":
            raise bad_request(
                f"Expected {method} signature method_name to be tensorflow/serving/{method}. "
                "Was: tensorflow/serving/predict"
            )
        body = await self._body(request)
        which = _which(request)
        number, version = find_version(self.server.models, **which)
        found = functools.partial(request.scope["metrics"].found, which["name"], number)
        try:
            async with asyncio.timeout(self.server.max_seconds):
                future, is_rows = await _beside(len(body), self._submit, version, body, found)
                outputs = await asyncio.wrap_future(future)
                size = sum(array.nbytes for array in outputs.values())
                return _response(await _beside(size, to_json, outputs, is_rows))
        except TimeoutError:
            message = f"The answer took longer than {self.server.max_seconds} seconds."
            raise RequestError(504, message) from None

    def _submit(self, version, body, found):
        request = parse(body)
        name = signature_name(request)
        signature = version.signature(name)
        found(name)
        arrays, is_rows = to_tensors(request, signature.inputs, signature.defaults, self.server.max_text)
        return signature.submit(arrays, self.server.max_rows), is_rows

    async def _body(self, request):
        size, body = int(request.headers.get("content-length", 0)), bytearray()  # h11 accepts digits only
        self._check_size(size)
        try:
            async with asyncio.timeout(self.server.read_seconds):
                async for chunk in request.stream():
                    body += chunk
                    self._check_size(len(body))
        except TimeoutError:
            message = f"The request did not arrive within {self.server.read_seconds} seconds."
            raise RequestError(408, message) from None
        return bytes(body)

    def _check_size(self, size):
        if size > self.server.max_bytes:
            raise RequestError(413, f"A request may have {self.server.max_bytes:,} bytes. Received: {size:,} bytes")


def _well_formed(app):
    """Refuses requests of two lengths, in which another one may hide, of impossible ports, and of other protocols."""
    from starlette.datastructures import Headers

    async def answer(scope, receive, send):
        headers, fault = Headers(scope=scope), ""
        port = re.search(r":([0-9]*)$", headers.get("host", ""))
        if "content-length" in headers and "transfer-encoding" in headers:
            fault = "A request must have Content-Length or Transfer-Encoding. Received: both"
        elif port and int(port[1] or 0) >= 2**16:
            fault = f"The port in the header Host must be below 65,536. Received: {port[1][:20]}"
        elif scope["http_version"] not in ("1.0", "1.1"):
            fault = f"The protocol must be HTTP/1.0 or HTTP/1.1. Received: HTTP/{scope['http_version']}"
        if fault:
            refusal = _error(400, fault)
            refusal.headers["Connection"] = "close"
            return await refusal(scope, receive, send)
        await app(scope, receive, send)

    return answer


async def _beside(size, function, *arguments):
    """Calls a function, in another thread if the data is large."""
    return function(*arguments) if size < LARGE else await asyncio.to_thread(function, *arguments)


def _which(request):
    """Returns a request's model name and version number or label, as arguments of `find_version`."""
    parts = dict(request.path_params)
    parts.pop("method", None)
    number = parts.pop("version", None)
    if number is not None:
        parts["number"] = int(number) if is_version(number) and len(number) < 19 else number[:20]
    return parts


def _response(body, status=200, headers=None):
    from starlette.responses import Response

    return Response(body, status, headers, "application/json")


def _json(value):
    return _response(json.dumps(value, indent=1).encode("ascii"))


def _error(status, message):
    body = json.dumps({"error": message}).encode("ascii")
    return _response(body, status, {"Retry-After": "1"} if status in (429, 503) else None)
