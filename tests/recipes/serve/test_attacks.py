"""The local server in a process, against many clients at once and large requests."""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_headattn.serving import save_signatures
from tests.recipes.commands import ROOT


class Process:
    """The process of the server."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "recipes.serve", f"twice={folder}", "--port", "0"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = iter(self.process.stdout.readline, "")
        self.port = int(next(match[1] for line in lines if (match := re.search(r"page: http://.*:(\d+)/", line))))

    def megabytes(self):
        """The most memory that it had so far."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3

    def ask(self, body):
        """Status and answer."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("POST", "/v1/models/twice:predict", body)
            response = connection.getresponse()
            return response.status, response.read()

    def works(self):
        status, answer = self.ask(b'{"instances": [2]}')
        return status == 200 and json.loads(answer) == {"predictions": [4.0]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    save_signatures({"serving_default": (lambda x: {"y": 2 * x}, [tf.TensorSpec((None,), tf.float32, "x")])}, folder)
    it = Process(folder)
    try:
        yield it
        it.process.send_signal(signal.SIGTERM)
        printed = it.process.communicate(timeout=30)[0]
        assert it.process.returncode == 0 and "Traceback" not in printed, printed
    finally:
        it.process.kill()


def test_many_requests_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda number: server.ask(json.dumps({"instances": [number]})), range(1000)))
    assert [status for status, _ in answers] == [200] * 1000
    assert [json.loads(answer)["predictions"] for _, answer in answers] == [[2.0 * number] for number in range(1000)]


def test_many_idle_connections(server):
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        assert server.ask(b'{"instances": [2]}')[0] == 503
    for _ in range(100):
        if server.works():
            break
    assert server.works()


def test_clients_that_never_read(server):
    request = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.sendall(request * 1000)
        assert server.works()
    assert server.works()


@pytest.mark.parametrize("is_whole", [True, False])
def test_clients_that_close_their_sending_side(server, is_whole):
    body = b'{"instances": [2]}'
    request = b"POST /v1/models/twice:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n" + body
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request if is_whole else request[:-1])
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert (b"200 OK" in answer and json.loads(answer.rpartition(b"\r\n\r\n")[2]) == {"predictions": [4.0]}) == is_whole
    assert server.works()


@pytest.mark.parametrize("body, status", [
    (b"x" * 100_000_000, 413),
    (b'{"instances": [%s1]}' % (b"1," * 4_000_000), 400),
    (b'{"instances": [%s{}]}' % (b"{}," * 2_500_000), 400),
    (b"[" * 8_000_000, 400),
    (b'{"inputs": %s1%s}' % (b"[" * 900, b"]" * 900), 400),
], ids=["too large", "numbers", "objects", "depth", "levels"])  # fmt: skip
def test_huge_bodies(server, body, status):
    before = server.megabytes()
    with contextlib.suppress(ConnectionError):  # the answer may come before all is sent
        answered, answer = server.ask(body)
        assert answered == status and len(json.loads(answer)["error"]) < 400
    assert server.works() and server.megabytes() - before < 1000
