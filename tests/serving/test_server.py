"""The local server on loopback, with small SavedModels."""

import base64
import contextlib
import errno
import http.client
import json
import logging
import os
import pathlib
import re
import shutil
import socket
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import SentenceClassifier, TransformerEncoder
from keras_headattn.serving import Server, _server, _server_models, export_classifier, write_warmup
from keras_headattn.serving._server_models import ServedModel
from keras_headattn.serving._versions import save_signatures, write_examples
from keras_headattn.text import WordTokenizer
from tests.refusals import refused

TEXTS = ["the cat sat", "a dog", "", "the the cat"]


def numbers_signatures(scale):
    def double(x):
        return {"y": scale * x}

    def mixed(ids, flag, name):
        return {"total": tf.reduce_sum(ids, axis=1), "flag": flag, "raw_bytes": name, "name": name}

    def fail(x):
        return {"y": tf.strings.to_number(tf.strings.as_string(x) + "z")}

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(x[0] > 5, ["A number must be above 5, not in a/b."])]):
            return {"y": tf.identity(x)}

    def slow(x):
        return {"y": tf.py_function(lambda x: (time.sleep(0.6), x)[1], [x], tf.float32)}

    ten = tf.constant([10.0])

    def add(x, number=ten):
        return {"y": x + number}

    floats = tf.TensorSpec((None,), tf.float32, name="x")
    return {
        "optional": (add, [floats, tf.TensorSpec((None,), tf.float32, name="number")]),
        "serving_default": (double, [floats]),
        "mixed": (
            mixed,
            [
                tf.TensorSpec((None, None), tf.int32, name="ids"),
                tf.TensorSpec((None,), tf.bool, name="flag"),
                tf.TensorSpec((None,), tf.string, name="name"),
            ],
        ),
        "fail": (fail, [floats]),
        "refuse": (refuse, [floats]),
        "slow": (slow, [floats]),
    }


def export_numbers(folder, scale):
    return save_signatures(numbers_signatures(scale), folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier with the signature `attention`, and two versions of one that multiplies numbers."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = WordTokenizer(["the", "cat", "sat", "dog", "a"])
    encoder = TransformerEncoder(tokenizer.vocabulary_size, 8, 16, num_layers=1, attention="multi_head", num_heads=2)
    model = SentenceClassifier(encoder, 3, SelfAttentivePooling(3, 4), mlp_dim=6)
    path = export_classifier(model, tokenizer, ["a", "b", "c"], folder / "texts", max_length=6, attention=True)
    write_examples(path, [{"text": "the cat"}])
    for scale in (2.0, 3.0):
        export_numbers(folder / "numbers", scale)
    return folder


@pytest.fixture(scope="module")
def server(folders):
    models = {name: folders / name for name in ("texts", "numbers")}
    with Server(models, port=0, keep=2, labels={"stable": 1}, max_bytes=300_000, max_text=2000, read_seconds=2) as it:
        yield it


def ask(server, path, body=None, method=None, headers=None):
    """Status, answer and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    is_json = "json" in answer.headers["Content-Type"] and found
    return answer.status, json.loads(found) if is_json else found.decode(), answer.headers


def predict(server, body, model="numbers", status=200):
    found, answer, _ = ask(server, f"/v1/models/{model}:predict", body)
    assert found == status, answer
    return answer


def test_rows_and_columns(server, folders):
    signature = tf.saved_model.load(str(folders / "texts" / "1")).signatures["serving_default"]
    expected = {name: value.numpy() for name, value in signature(text=tf.constant(TEXTS)).items()}
    columns = predict(server, {"inputs": TEXTS}, "texts")["outputs"]
    rows = predict(server, {"instances": TEXTS}, "texts")["predictions"]
    named = predict(server, {"instances": [{"text": text} for text in TEXTS]}, "texts")["predictions"]
    coded = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
    assert rows == named == predict(server, {"instances": coded}, "texts")["predictions"]
    assert columns == predict(server, {"inputs": {"text": TEXTS}}, "texts")["outputs"]
    assert (
        [row["classes"] for row in rows] == columns["classes"] == [[c.decode() for c in r] for r in expected["classes"]]
    )
    np.testing.assert_allclose([row["scores"] for row in rows], expected["scores"], rtol=1e-6)
    np.testing.assert_allclose(columns["scores"], expected["scores"], rtol=1e-6)


def test_one_output_and_many(server):
    assert predict(server, {"instances": [1, 2.5]}) == {"predictions": [3.0, 7.5]}
    assert predict(server, {"inputs": [0.1]}) == {"outputs": [0.3]}  # as few digits as it has
    row = {"ids": [1, 2], "flag": True, "name": "é"}
    found = predict(server, {"signature_name": "mixed", "instances": [row, row | {"flag": False}]})["predictions"]
    raw = {"b64": base64.b64encode("é".encode()).decode()}
    assert found[1] == {"flag": False, "name": "é", "raw_bytes": raw, "total": 3}


@pytest.mark.parametrize("asked, expected", [
    ({"instances": [{"x": 1}, {"x": 2}]}, [11, 12]),
    ({"instances": [{"x": 1, "number": 3}, {"x": 2, "number": 4}]}, [4, 6]),
    ({"inputs": {"x": [1, 2]}}, [11, 12]),
    ({"inputs": {"x": [1, 2], "number": [3]}}, [4, 5]),
])  # fmt: skip
def test_optional_inputs(server, asked, expected):
    (found,) = predict(server, asked | {"signature_name": "optional"}).values()
    assert found == expected


@pytest.mark.parametrize("asked, message", [
    ({"instances": [{"x": 1, "number": 2}, {"x": 2}]}, "element: 1 of 'instances' list.* equal to: number,x"),
    ({"instances": [{"x": 1}, {"x": 2, "number": 2}]}, "element: 1 of 'instances' list.* equal to: x"),
    ({"instances": [{"number": 1}]}, "equal to: number,x"),
    ({"inputs": {"number": [1]}}, "Missing named input: x"),
    ({"inputs": {"x": [1, 2, 3], "number": [1, 2]}}, "ncompatible shapes"),
])  # fmt: skip
def test_wrong_optional_inputs(server, asked, message):
    assert re.search(message, predict(server, asked | {"signature_name": "optional"}, status=400)["error"])


def test_attention(server):
    rows = predict(server, {"signature_name": "attention", "instances": TEXTS[:2]}, "texts")["predictions"]
    length = len(rows[0]["pieces"])  # padded to one of few lengths
    assert [[piece for piece in row["pieces"] if piece] for row in rows] == [["the", "cat", "sat"], ["a", "dog"]]
    assert np.shape(rows[0]["weights"]) == (1, 2, length, length) and np.shape(rows[0]["pooling"]) == (3, length)
    np.testing.assert_allclose(np.sum(rows[0]["weights"], -1)[..., :3], 1, rtol=1e-5)
    np.testing.assert_array_equal(np.array(rows[0]["weights"])[..., 3:], 0)


def test_versions_labels_and_metadata(server):
    for path, scale in (("", 3), ("/versions/1", 2), ("/versions/2", 3), ("/labels/stable", 2)):
        assert ask(server, f"/v1/models/numbers{path}:predict", {"instances": [1]})[1] == {"predictions": [scale]}
    _, status, _ = ask(server, "/v1/models/numbers")
    available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert status == {"model_version_status": [{"version": "2"} | available, {"version": "1"} | available]}
    assert ask(server, "/v1/models/numbers/versions/1")[1]["model_version_status"] == [{"version": "1"} | available]
    _, found, _ = ask(server, "/v1/models/texts/metadata")
    assert found["model_spec"] == {"name": "texts", "signature_name": "", "version": "1"}
    definitions = found["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "attention"} <= set(definitions)
    text = definitions["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING" and text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    assert definitions["serving_default"]["method_name"] == "tensorflow/serving/predict"


@pytest.mark.parametrize("path, body, status, message", [
    ("/v1/models/numbers:predict", b"", 400, "JSON Parse error: The body is not JSON. Received: Expecting value"),
    ("/v1/models/numbers:predict", b"{", 400, r"JSON Parse error: .* \(char 1\)"),
    ("/v1/models/numbers:predict", b'{"instances": ["\xff"]}', 400, "JSON Parse error: .* in position 16"),
    ("/v1/models/texts:predict", b'{"instances": ["\\ud800"]}', 400, "surrogate"),
    ("/v1/models/numbers:predict", b"[" * 100_000, 400, "JSON Parse error"),
    ("/v1/models/numbers:predict", b'{"instances": [' + b"9" * 5000 + b"]}", 400, "JSON Parse error: .*4300 digits"),
    ("/v1/models/numbers:predict", [1], 400, r"JSON Value: \[...\] Is not object"),
    ("/v1/models/numbers:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    ("/v1/models/numbers:predict", {"inputs": 1, "instances": [1]}, 400, "only one of 'inputs' or 'instances'"),
    ("/v1/models/numbers:predict", {"instances": []}, 400, "No values in 'instances' array"),
    ("/v1/models/numbers:predict", {"instances": 5}, 400, "Excepting 'instances' to be an list/array"),
    ("/v1/models/numbers:predict", {"instances": ["a"]}, 400,
     r'element: \[0\]. JSON Value: "a" Type: String is not of expected type: float'),
    ("/v1/models/numbers:predict", {"instances": [True]}, 400, "Type: Bool is not of expected type"),
    ("/v1/models/numbers:predict", {"instances": [None]}, 400, "Type: Null"),
    ("/v1/models/numbers:predict", {"instances": [2**60]}, 400, f"Cannot convert .*: {2**60} to float32 without loss"),
    ("/v1/models/numbers:predict", {"instances": [[1], [1, 2]]}, 400, "must be of equal sizes at each level"),
    ("/v1/models/numbers:predict", {"instances": [[1, 2]]}, 400, r"x must be of shape \[\?\]. Received: .*\[1,2\]"),
    ("/v1/models/numbers:predict", {"inputs": [1, [2]]}, 400, "must be of equal sizes at each level"),
    ("/v1/models/numbers:predict", {"inputs": [[1], 2]}, 400, "must be of equal sizes at each level"),
    ("/v1/models/numbers:predict", {"inputs": {"z": 1}}, 400, "Missing named input: x"),
    ("/v1/models/numbers:predict", {"signature_name": "mixed", "instances": [1]}, 400, "the keys flag, ids, name"),
    ("/v1/models/numbers:predict", {"signature_name": "mixed", "inputs": [1]}, 400, "the keys flag, ids, name"),
    ("/v1/models/numbers:predict", {"signature_name": "mixed", "instances": [
        {"ids": [1], "flag": True, "name": "a"}, {"ids": [1], "flag": True, "name": {"b64": 5}}
    ]}, 400, r"element: \[1\]. JSON Value: {...} Type: Object is not of expected type: string"),
    ("/v1/models/numbers:predict", {"instances": [{"z": 1}]}, 400, "keys must be equal to: x"),
    ("/v1/models/numbers:predict", {"instances": [1, {"x": 1}]}, 400, r"element: 0 of .* keys must be equal to: x"),
    ("/v1/models/numbers:predict", {"instances": [1] * 1025}, 400, "may have 1024 rows. Received: 1025"),
    ("/v1/models/texts:predict", {"instances": [{"b64": "*"}]}, 400, "Unable to base64 decode"),
    ("/v1/models/texts:predict", {"instances": ["x" * 2001]}, 400, "A text may have 2,000 bytes. Received: 2,001"),
    ("/v1/models/texts:predict", {"instances": [{"b64": "eHh4" * 667}]}, 400, "A text may have 2,000 bytes"),
    *(("/v1/models/numbers:predict", b'{"instances": %s1%s}' % (b"[" * depth, b"]" * depth), 400, "levels deep|nested")
      for depth in (64, 65, 66, 300, 970)),
    *(("/v1/models/numbers:predict", b'{"inputs": %s1%s}' % (b"[" * depth, b"]" * depth), 400, "levels deep|nested")
      for depth in (33, 64, 65, 970)),
    ("/v1/models/numbers:predict", b'{"signature_name": %s1%s}' % (b"[" * 900, b"]" * 900), 400, "must be a string"),
    ("/v1/models/numbers:predict", b"x" * 300_001, 413, "may have 300,000 bytes. Received: 300,001"),
    ("/v1/models/numbers:predict", {"signature_name": 5, "instances": [1]}, 400, "key must be a string value"),
    ("/v1/models/numbers:predict", {"signature_name": "no", "instances": [1]}, 400,
     'Serving signature name: "no" not found in signature def'),
    ("/v1/models/numbers:predict", {"signature_name": "fail", "instances": [1]}, 400,
     "does not take these values: StringToNumberOp could not correctly convert string: "),
    ("/v1/models/numbers:predict", {"signature_name": "refuse", "instances": [1]}, 400,
     "does not take these values: A number must be above 5, not in a/b.$"),
    ("/v1/models/numbers:classify", {"examples": [{}]}, 400, "to be tensorflow/serving/classify. Was"),
    ("/v1/models/none:predict", {"instances": [1]}, 404, r"Servable not found for request: Latest\(none\)"),
    ("/v1/models/numbers/versions/9:predict", {"instances": [1]}, 404, r"request: Specific\(numbers, 9\)"),
    ("/v1/models/numbers/labels/no:predict", {"instances": [1]}, 400, "Unrecognized servable version label: no"),
    ("/v1/models/none", None, 404, "Could not find any versions of model none"),
    ("/v1/models/numbers/versions/9", None, 404, "Could not find version 9 of model numbers"),
    ("/v1/models/numbers", {"instances": [1]}, 400, "Malformed request: POST /v1/models/numbers"),
    ("/v1/models/numbers:predict", None, 400, "Malformed request: GET"),
    ("/v1/models/numbers:run", {"instances": [1]}, 400, "Malformed request: POST /v1/models/numbers:run"),
    (f"/v1/models/numbers/versions/{'9' * 5000}", None, 404, "Could not find version 9"),
    ("/v1/models/numbers/versions/%D9%A1", None, 404, "Could not find version \u0661"),  # an Arabic 1
    ("/etc/passwd", None, 404, "Malformed request"),
    ("/../page.js", None, 404, "Malformed request"),
])  # fmt: skip
def test_what_is_wrong_is_said(server, path, body, status, message):
    found, answer, headers = ask(server, path, body)
    assert found == status and set(answer) == {"error"}

    assert re.search(message, answer["error"]), answer
    assert len(answer["error"]) < 400 and "Traceback" not in answer["error"] and "/tmp" not in answer["error"]


def raw(server, data, half=False):
    """What the server answers to bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(data)
        if half:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                received += chunk
    return received


POST = b"POST /v1/models/numbers:predict HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("data, status, message", [
    (POST + b"Content-Length: 50\r\n\r\n{", 408, b"did not arrive within 2 seconds"),
    (POST + b"Content-Length: 9999999999999\r\n\r\n", 413, b"may have 300,000 bytes"),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"fff0\r\n%s\r\n" % (b"x" * 0xFFF0) * 5, 413, b"may have 300,000"),
    (POST + b"\r\n", 400, b"Expecting value"),
    (POST + b"Content-Length: -5\r\n\r\n", 400, b""),
    (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, b""),
    (POST + b"X: " + b"y" * 20_000 + b"\r\n\r\n", 400, b""),
    (POST + b": v\r\n\r\n", 400, b""),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, b""),
    (POST + b"Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n", 403, b"may not ask this server"),
    (POST + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n", 403, b"may not ask this server"),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, b""),
    (b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 400, b""),
    (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n",
     400, b"Received: both"),
    *((b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host, 400, b"") for host in [
        b"localhost:65536", b"localhost:99999999",
        b"evil.example", b"localhost.evil.example", b"localhost@evil.example", b"[::1", b"[]", b"]", b"[evil]", b"",
        b"\xe9",
    ]),
])  # fmt: skip
def test_half_and_odd_requests(server, data, status, message, caplog):
    answer = raw(server, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert message in answer.partition(b"\r\n\r\n")[2] and answer.count(b"HTTP/1.1 ") == 1 and caplog.text == ""


def test_clients_that_close_their_side_are_answered(server):
    body = b'{"instances": [1]}'
    one = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    start = time.monotonic()
    assert raw(server, one, half=True).endswith(b'{"predictions": [3.0]}')
    assert raw(server, one * 3, half=True).count(b"200 OK") == 3
    assert time.monotonic() - start < 2


def test_half_requests_end_without_a_traceback(server, caplog):
    for data in (POST, POST + b"Content-Length: 50\r\n\r\n{"):
        assert raw(server, data, half=True) == b""
    start = time.monotonic()
    assert raw(server, POST) == raw(server, b"") == b""  # what does not come in time
    assert time.monotonic() - start < 6 and caplog.text == ""


@pytest.mark.parametrize("host", [b"localhost", b"127.0.0.1:80", b"[::1]:80"])
def test_names_of_this_machine(server, host):
    request = b"GET /models.json HTTP/1.1\r\nConnection: close\r\nHost: %s\r\n\r\n" % host
    assert raw(server, request).startswith(b"HTTP/1.1 200 OK")


def test_connections_are_kept(server):
    body = b'{"instances": [1]}'
    one = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    last = one.replace(b"Host", b"Connection: close\r\nHost")
    assert raw(server, one + one + last).count(b"200 OK") == 3
    expecting = POST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert raw(server, expecting).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def test_answers_are_not_held_back(server):
    """An answer is written in two parts: the second does not wait until the peer has confirmed the first."""
    with socket.create_connection(("127.0.0.1", server.port)):
        wait_for(lambda: server._http.server_state.connections)
        connection = next(iter(server._http.server_state.connections))
        end = connection.transport.get_extra_info("socket")
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_page(server):
    status, page, headers = ask(server, "/")
    assert status == 200 and "<title>" in page
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "script-src 'self'" in policy
    listed = ask(server, "/models.json")[1]["models"]
    assert listed == [
        {"name": "texts", "takes_text": True, "examples": [{"text": "the cat"}]},
        {"name": "numbers", "takes_text": False, "examples": []},
    ]
    assert {ask(server, f"/page.{kind}")[0] for kind in ("css", "js")} == {200}


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_requests_are_run_together(folders):
    """While one runs, others wait, and then run as one; each has its own answer."""
    sizes = []
    with Server({"texts": folders / "texts"}, port=0, max_batch=8) as server:
        signature = server.models["texts"].loaded[1].signatures["serving_default"]
        run = signature._function
        released = threading.Event()

        def function(text):
            sizes.append(len(text))
            released.wait(20)
            return run(text=text)

        signature._function = function
        answers = {}

        def one(text):
            answers[text] = predict(server, {"instances": [text]}, "texts")["predictions"][0]

        texts = [f"the cat {'sat ' * number}" for number in range(12)]
        threads = [threading.Thread(target=one, args=[text]) for text in texts]
        threads[0].start()
        wait_for(lambda: sizes)
        for thread in threads[1:]:
            thread.start()
        wait_for(lambda: len(signature._waiting) == 11)
        released.set()
        for thread in threads:
            thread.join()
        assert sizes == [1, 8, 3]
        signature._function = run
        for text in texts:
            expected = predict(server, {"instances": [text]}, "texts")["predictions"][0]
            np.testing.assert_allclose(answers[text]["scores"], expected["scores"], rtol=1e-5)


def test_versions_come_and_go(folders, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "keras_headattn.serving")
    folder = tmp_path / "numbers"
    shutil.copytree(folders / "numbers" / "1", folder / "1")
    monkeypatch.setattr(_server, "POLL_SECONDS", 0.05)

    def served(server):
        status, answer, _ = ask(server, "/v1/models/numbers:predict", {"instances": [1]})
        return answer["predictions"][0] if status == 200 else status

    with Server({"numbers": folder}, port=0) as server:
        assert served(server) == 2
        shutil.copytree(folders / "numbers" / "2", tmp_path / "new")
        (tmp_path / "new").rename(folder / "5")
        wait_for(lambda: served(server) == 3)
        (folder / "7").mkdir()
        (folder / "7" / "saved_model.pb").write_bytes(b"no model")
        wait_for(lambda: 7 in server.models["numbers"]._damaged)
        _, status, _ = ask(server, "/v1/models/numbers")
        found = {each["version"]: each for each in status["model_version_status"]}
        assert served(server) == 3 and found["7"]["state"] == "END" and found["5"]["state"] == "AVAILABLE"
        assert "/" not in found["7"]["status"]["error_message"]
        assert "version 7 cannot be loaded; 5 stays" in caplog.text
        shutil.rmtree(folder / "7")
        shutil.rmtree(folder / "5")
        wait_for(lambda: served(server) == 2)
        shutil.rmtree(folder / "1")
        wait_for(lambda: served(server) == 404)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_passing_error_of_the_folder_unloads_nothing(folders, monkeypatch, caplog, code):
    model = ServedModel("numbers", folders / "numbers", 1, {}, 64)
    model.poll()
    loaded = model.loaded

    def fail(path):
        raise OSError(code, "it may pass")

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "iterdir", fail)
        model.poll()
        model.poll()
        assert model.loaded is loaded
    assert caplog.text.count("what is loaded stays") == 1  # said once
    model.poll()
    assert list(model.loaded) == [2] and model.loaded[2] is loaded[2]


def test_a_version_that_met_a_passing_error_is_tried_again(folders, monkeypatch, caplog):
    model = ServedModel("numbers", folders / "numbers", 1, {}, 64)

    def fail(path):
        raise OSError(errno.EMFILE, "it may pass")

    with monkeypatch.context() as patch:
        patch.setattr(_server_models, "_load", fail)
        model.poll()
        model.poll()
        assert model.loaded == {} and caplog.text.count("version 2 cannot be loaded") == 1
    model.poll()
    assert list(model.loaded) == [2]


@pytest.mark.parametrize("name", ["saved_model.pb", "assets.extra/tf_serving_warmup_requests"])
def test_pipes_are_not_waited_for(folders, tmp_path, caplog, name):
    shutil.copytree(folders / "numbers" / "1", tmp_path / "1")
    shutil.copytree(folders / "numbers" / "1", tmp_path / "2")
    (tmp_path / "\uff17").mkdir()  # a digit, but no number of a version
    pipe = tmp_path / "2" / name
    pipe.parent.mkdir(exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    model = ServedModel("numbers", tmp_path, 1, {}, 64)
    model.poll()
    assert list(model.loaded) == [1] and list(model._damaged) == [2]
    assert f"only files and folders. Received: {pipe.name}" in caplog.text


def test_warm_up_requests_are_run_before_others(folders, tmp_path):
    folder = shutil.copytree(folders / "numbers" / "1", tmp_path / "numbers" / "1").parent
    write_warmup(folder / "1", {"serving_default": [{"x": np.ones(3, "float32")}]})
    with Server({"numbers": folder}, port=0) as server:
        assert list(server.models["numbers"].loaded) == [1]
    write_warmup(folder / "1", {"fail": [{"x": np.ones(3, "float32")}]})  # as a server does, it does not load this
    with Server({"numbers": folder}, port=0) as server:
        (status,) = ask(server, "/v1/models/numbers")[1]["model_version_status"]
        assert status["state"] == "END"


def running(server):
    """True while a request is being answered."""
    return server._http.server_state.tasks


def test_stopping_answers_what_has_come(folders):
    server = Server({"numbers": folders / "numbers"}, port=0).start()
    found = []
    body = {"signature_name": "slow", "instances": [7]}
    # In this process `py_function` works: the model was exported here.
    thread = threading.Thread(target=lambda: found.append(ask(server, "/v1/models/numbers:predict", body)))
    thread.start()
    wait_for(lambda: running(server))
    server.stop()
    thread.join()
    assert found[0][:2] == (200, {"predictions": [7.0]})
    with pytest.raises(ConnectionError):
        ask(server, "/")


def test_limits_of_time_and_rate(folders):
    models, origin = {"numbers": folders / "numbers"}, "http://localhost:9"
    with Server(models, port=0, max_seconds=0.2, origins=[origin]) as server:
        body = {"signature_name": "slow", "instances": [7]}
        status, answer, headers = ask(server, "/v1/models/numbers:predict", body, headers={"Origin": origin})
        assert (status, answer) == (504, {"error": "The answer took longer than 0.2 seconds."})
        assert headers["Access-Control-Allow-Origin"] == origin
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        status, _, headers = ask(server, "/v1/models/numbers:predict", method="OPTIONS", headers=asked)
        assert status == 200 and headers["Access-Control-Allow-Origin"] == origin
    with Server(models, port=0, rate=2) as server:
        answers = [ask(server, "/models.json") for _ in range(6)]
        assert answers[0][0] == 200
        status, answer, headers = next(each for each in answers if each[0] != 200)
        assert (status, answer) == (429, {"error": "An address may send 2 requests a second."})
        assert headers["Retry-After"] == "1"


def test_folders_and_ports(folders, tmp_path):
    with refused("folder of all versions", folders / "numbers" / "1"):
        Server({"x": folders / "numbers" / "1"})
    with Server({"x": tmp_path}, port=0) as server:
        assert ask(server, "/v1/models/x:predict", {"instances": [1]})[0] == 404
        for option, ports in (
            ("--port", {"port": server.port}),
            ("--grpc-port", {"port": 0, "grpc_port": server.port}),
        ):
            other = Server({"x": tmp_path}, **ports)
            other.models = None  # which would take long to load
            with refused(f"{option} or --host", server.port, OSError):
                other.start()
    with refused("--port or --host", 70000, OSError):
        Server({"x": tmp_path}, port=70_000).start()


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "prometheus_client"])
def test_missing_packages(folders, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    server, name = Server({"numbers": folders / "numbers"}, port=0), package.replace("_", "-")
    with pytest.raises(ImportError, match=rf"pip install {name} .*\[serving\]"):
        server.start()
    assert server.models["numbers"].loaded == {}  # before models are loaded
