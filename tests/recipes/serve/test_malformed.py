"""Requests that the local server refuses, each with a sentence in JSON."""

import contextlib
import re
import socket

import pytest
import tensorflow as tf

from keras_headattn.serving import save_signatures
from tests.recipes.serve.local_server import local_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "numbers"

    def fail(x):
        return {"y": tf.strings.to_number(tf.strings.as_string(x) + "z")}

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(x[0] > 5, ["A number must be above 5, not in a/b."])]):
            return {"y": tf.identity(x)}

    def count(text):
        return {"count": tf.strings.length(text)}

    floats, ids = tf.TensorSpec((None,), tf.float32, name="x"), tf.TensorSpec((None, 2), tf.int32, name="ids")
    text, flag = tf.TensorSpec((None,), tf.string, name="text"), tf.TensorSpec((None,), tf.bool, name="flag")
    signatures = {
        "serving_default": (lambda x: {"y": 2 * x}, [floats]),
        "text": (count, [text]),
        "mixed": (lambda ids, flag: {"ids": ids, "flag": flag}, [ids, flag]),
        "total": (lambda x: {"y": tf.reduce_sum(x)}, [floats]),
        "fail": (fail, [floats]),
        "refuse": (refuse, [floats]),
    }
    save_signatures(signatures, folder)
    with local_server({"numbers": folder}, max_bytes=300_000) as it:
        yield it


def mixed(ids, flag):
    return {"signature_name": "mixed", "instances": [{"ids": [1, 2], "flag": True}, {"ids": ids, "flag": flag}]}


def text(value):
    return {"signature_name": "text", "instances": [value]}


@pytest.mark.parametrize("body, message", [
    (b"", "not JSON. Received: Expecting value"),
    (b"{", r"not JSON. Received: .* \(char 1\)"),
    (b'{"instances": ["\xff"]}', "not JSON. Received: .* in position 16"),
    (b"[" * 100_000, "not JSON .*nested too deeply"),
    (b'{"instances": [' + b"9" * 5000 + b"]}", "not JSON. Received: .*4300 digits"),
    ([1], "must be a JSON object. Received: "),
    ({}, "either 'instances', rows, or 'inputs', columns"),
    ({"inputs": 1, "instances": [1]}, "either 'instances'"),
    ({"instances": []}, "'instances' must be a list of rows"),
    ({"instances": 5}, "'instances' must be a list of rows. Received: 5"),
    ({"instances": ["a"]}, "Input x: It must be float32. Received: 'a'"),
    ({"instances": [1, True]}, "Input x: It must be float32. Received: True"),
    ({"instances": [None]}, "It must be float32. Received: None"),
    ({"instances": [10**400]}, "Input x: int too large to convert to float"),
    ({"instances": [1e39]}, "Input x: overflow encountered in cast"),
    ({"instances": [[1], [1, 2]]}, "must be of equal sizes at each level"),
    ({"instances": [[1, 2]]}, r"x must be of shape \(\?\). Received: shape \(1, 2\)"),
    ({"inputs": [[1], 2]}, "must be of equal sizes at each level"),
    ({"inputs": {"z": 1}}, "must be objects with the keys x"),
    ({"instances": [{"z": 1}]}, r"\[0\] must have the keys x. Received: {'z': 1}"),
    ({"instances": [1, {"x": 1}]}, r"\[0\] must have the keys x. Received: 1"),
    ({"instances": [1] * 1025}, "may have 1024 rows. Received: 1025"),
    ({"signature_name": "mixed", "instances": [1]}, "with the keys flag, ids"),
    ({"signature_name": "mixed", "inputs": [1]}, "with the keys flag, ids"),
    ({"signature_name": "mixed", "inputs": {"ids": [1]}}, r"keys flag, ids. Received: {'ids': \[1\]}, without flag$"),
    (mixed([1, 2**31], True), "Input ids: Python integer 2147483648 out of bounds for int32"),
    (mixed([1, 2.0], True), "It must be int32. Received: 2.0"),
    (mixed([1], True), "must be of equal sizes"),
    (mixed([1, 2], 1), "It must be bool. Received: 1"),
    (text({"b64": "*"}), "Only base64 data is allowed"),
    (text({"b64": 5}), "must have the keys text"),
    (text(5), "It must be string. Received: 5"),
    (b'{"signature_name": "text", "instances": ["\\ud800"]}', "surrogates not allowed"),
    (text("x" * 65_537), "A text may have 65,536 bytes. Received: 65,537"),
    (text({"b64": "eHh4" * 21_846}), "A text may have 65,536 bytes. Received: 65,538"),
    *((b'{"instances": %s1%s}' % (b"[" * depth, b"]" * depth), "levels deep|nested") for depth in (33, 64, 65, 970)),
    (b'{"signature_name": %s1%s}' % (b"[" * 900, b"]" * 900), "must be a string"),
    ({"signature_name": 5, "instances": [1]}, "'signature_name' must be a string. Received: 5"),
    ({"signature_name": "no", "instances": [1]}, "There is no signature 'no'"),
    (b'{"signature_name": "\\ud800", "instances": [1]}', r"There is no signature '\\ud800'"),
    ({"signature_name": "total", "instances": [1]}, "no rows in common: use 'inputs'"),
    ({"signature_name": "total", "inputs": [1] * 65}, "may have 64 rows"),
    ({"signature_name": "fail", "instances": [1]}, "values: StringToNumberOp could not correctly convert string: "),
    ({"signature_name": "refuse", "instances": [1]}, "values: A number must be above 5, not in a/b.$"),
])  # fmt: skip
def test_bodies(server, body, message):
    check(server, "/v1/models/numbers:predict", body, 400, message)


@pytest.mark.parametrize("path, body, status, message", [
    ("/v1/models/numbers:predict", b"x" * 300_001, 413, "may have 300,000 bytes. Received: 300,001"),
    ("/v1/models/none:predict", {"instances": [1]}, 404, "There is no model 'none'"),
    ("/v1/models/numbers/versions/9:predict", {"instances": [1]}, 404, "There is no version 9 of model numbers"),
    ("/v1/models/numbers/labels/stable:predict", {"instances": [1]}, 404, "Not Found"),
    ("/v1/models/none", None, 404, "There is no model 'none'"),
    ("/v1/models/numbers/versions/9", None, 404, "There is no version 9 of model numbers"),
    (f"/v1/models/numbers/versions/{'9' * 5000}", None, 404, "There is no version 9"),
    ("/v1/models/numbers/versions/%D9%A1", None, 404, "There is no version \u0661"),  # an Arabic 1
    ("/v1/models/numbers", {"instances": [1]}, 405, "Method Not Allowed"),
    ("/v1/models/numbers:run", {"instances": [1]}, 405, "Method Not Allowed"),
    ("/v1/models/numbers:predict", None, 404, "There is no model 'numbers:predict'"),
    ("/v1/models/..%2Fnumbers", None, 404, "Not Found"),
    ("/v1/models/../../../etc/passwd", None, 404, "Not Found"),
    ("/v1/models/..", None, 404, r"There is no model '\.\.'"),
    ("/v1/models/%00", None, 404, r"There is no model '\\x00'"),
    ("/etc/passwd", None, 404, "Not Found"),
    ("/../page.js", None, 404, "Not Found"),
])  # fmt: skip
def test_paths(server, path, body, status, message):
    check(server, path, body, status, message)


def check(server, path, body, status, message):
    answered, answer, _ = server.ask(path, body)
    assert answered == status and set(answer) == {"error"}
    assert re.search(message, answer["error"]), answer
    assert len(answer["error"]) < 400 and "Traceback" not in answer["error"] and "/tmp" not in answer["error"]


def raw(server, data):
    """What the server answers to bytes, after which the client sends no more."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.settimeout(3)
        connection.sendall(data)
        received = b""
        with contextlib.suppress(OSError):
            while chunk := connection.recv(65_536):
                received += chunk
    return received


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
TWO_LENGTHS = GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
POST = b"POST /v1/models/numbers:predict HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n"


@pytest.mark.parametrize("data, status, message", [
    (POST + b"Content-Length: 9999999999999\r\n\r\n", 413, b"may have 300,000 bytes"),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"fff0\r\n%s\r\n" % (b"x" * 0xFFF0) * 5, 413, b"may have 300,000"),
    (POST + b"\r\n", 400, b"Expecting value"),
    (POST + b"Content-Length: -5\r\n\r\n", 400, b""),
    (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, b""),
    (TWO_LENGTHS + GET, 400, b"one of Content-Length and Transfer-Encoding"),
    (POST + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 400, b""),
    (POST + b": v\r\n\r\n", 400, b""),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, b""),
    (POST + b"Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n", 403, b"may not ask this server"),
    (POST + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n", 403, b"may not ask this server"),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, b""),
    *((b"GET / HTTP/1.1\r\nConnection: close\r\nHost: %s\r\n\r\n" % host, 400, b"") for host in [
        b"evil.example", b"localhost.evil.example", b"localhost@evil.example", b"[::1", b"[]", b"]", b"[evil]", b"",
        b"\xe9",
    ]),
])  # fmt: skip
def test_requests_that_are_not_as_http_has_them(server, data, status, message, caplog):
    answer = raw(server, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert message in answer.partition(b"\r\n\r\n")[2] and answer.count(b"HTTP/1.1 ") == 1 and caplog.text == ""


def test_half_requests_end_without_a_traceback(server, caplog):
    for data in (POST, POST + b"Content-Length: 50\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    assert caplog.text == ""


@pytest.mark.parametrize("host", [b"localhost", b"127.0.0.1:80", b"[::1]:80"])
def test_names_of_this_machine(server, host):
    request = b"GET /models.json HTTP/1.1\r\nConnection: close\r\nHost: %s\r\n\r\n" % host
    assert raw(server, request).startswith(b"HTTP/1.1 200 OK")
