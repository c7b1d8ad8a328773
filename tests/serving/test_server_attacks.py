"""The local server, in a process with 1,024 file descriptors, against clients that mean no good."""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from keras_headattn.serving._versions import save_signatures
from tests.recipes.commands import ROOT

SCRIPT = """
import sys
from keras_headattn.serving import Server
grpc_port = 0 if sys.argv[2] == "grpc" else None
with Server({"twice": sys.argv[1]}, port=0, grpc_port=grpc_port, max_seconds=3, read_seconds=3) as server:
    print(server.port, server.grpc_port, flush=True)
    sys.stdin.read()
"""
DESCRIPTORS = 1024
FLOAT, STRING = tf.float32.as_datatype_enum, tf.string.as_datatype_enum


class Process:
    """The process of the server."""

    def __init__(self, folder, grpc):
        command = [sys.executable, "-c", SCRIPT, str(folder), "grpc" if grpc else "no"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        ports = self.process.stdout.readline().split()
        self.port, self.grpc_port = int(ports[0]), int(ports[1]) if grpc else None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def megabytes(self, kind):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1e3

    def answers(self):
        """True if the server answers a request rightly."""
        assert self.process.poll() is None
        url, body = f"http://127.0.0.1:{self.port}/v1/models/twice:predict", b'{"instances": [2]}'
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url, body, timeout=10) as answer:
                return json.load(answer) == {"predictions": [4.0]}
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    x = tf.TensorSpec((None,), tf.float32, name="x")
    text = tf.TensorSpec((None,), tf.string, name="text")
    save_signatures(
        {"serving_default": (lambda x: {"y": 2 * x}, [x]), "text": (lambda text: {"y": text}, [text])}, folder
    )
    it = Process(folder, grpc=importlib.util.find_spec("tensorflow_serving") is not None)
    with it.process:
        yield it
        it.process.stdin.close()
        assert it.process.wait(20) == 0


@pytest.fixture
def many_descriptors():
    """Room for the clients' ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this process may not open 1,018 connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def connect(stack, port, number):
    connections = []
    for _ in range(number):
        with contextlib.suppress(OSError):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)))
    return connections


@pytest.mark.parametrize("port", ["port", "grpc_port"])
def test_idle_connections(server, many_descriptors, port):
    if not getattr(server, port):
        pytest.skip("tensorflow-serving-api is not installed")
    before = server.descriptors()
    with contextlib.ExitStack() as stack:
        connections = connect(stack, getattr(server, port), 1018)
        assert len(connections) > 500
        # Room is left to load a version, once the server has closed what it accepted at once; idle ones stay 3 seconds.
        wait_for(lambda: server.descriptors() < 900, seconds=2)
        wait_for(server.answers)  # once those are closed that sent nothing in time, though their clients wait
    wait_for(lambda: server.descriptors() <= before + 5)


def test_prefaces_alone_do_not_hold_places(server):
    if not server.grpc_port:
        pytest.skip("tensorflow-serving-api is not installed")
    tensor = tensor_pb2.TensorProto(dtype=20, tensor_shape={"dim": [{"size": 1}]})
    with contextlib.ExitStack() as stack:
        for connection in connect(stack, server.grpc_port, 128):
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        start = time.monotonic()
        assert "must be float32" in refusal(server, tensor, wait_for_ready=True)
        assert time.monotonic() - start < 20


def test_clients_that_never_read(server):
    before = server.descriptors()
    request = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        connections = connect(stack, server.port, 30)
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.sendall(request * 1000)
        wait_for(server.answers)
        wait_for(lambda: server.descriptors() <= before + 5)
        assert all(connection.recv(15) == b"HTTP/1.1 200 OK" for connection in connections)  # they had been answered
    assert server.answers()


def test_heads_that_trickle(server):
    """A byte now and then does not keep a connection open."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        start = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in b"GET / HTTP/1.1\r\nX: " + b"x" * 1000:
                connection.sendall(bytes([byte]))
                time.sleep(0.25)
        assert 2 < time.monotonic() - start < 10


@pytest.mark.parametrize("shape, kind, message", [
    ((5 * 10**8,), "float", "may have 8,388,608 bytes. Received: float32 of shape"),
    ((10**15,), "float", "may have 8,388,608 bytes"),
    ((10**8,), "text", "may have 8,388,608 bytes"),
    ((10**6,), "float", "may have 1024 rows"),
    ((-5,), "float", "no tensor"),
    ((-1,), "float", "must be float32 of shape"),
    ((1000,), "long", "may have 8,388,608 bytes"),
    ((1,), "long", "A text may have 65,536 bytes. Received: 70,000 bytes"),
])  # fmt: skip
def test_few_bytes_that_ask_for_gigabytes(server, shape, kind, message):
    tensor = tensor_pb2.TensorProto(dtype=FLOAT if kind == "float" else STRING)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    if kind == "float":
        tensor.float_val.append(1)
    else:
        tensor.string_val.append(b"x" * (70_000 if kind == "long" else 1))
    before, start = server.megabytes("VmHWM"), time.monotonic()
    assert re.search(message, refusal(server, tensor))
    assert server.megabytes("VmHWM") - before < 100 and time.monotonic() - start < 5


@pytest.mark.parametrize("dtype", [20, 21, 999])
def test_types_of_tensors_that_hold_no_values(server, dtype):
    tensor = tensor_pb2.TensorProto(dtype=dtype)
    tensor.tensor_shape.dim.add(size=1)
    assert re.search("must be float32|no tensor", refusal(server, tensor))


def refusal(server, tensor, **options):
    """What is wrong with a tensor, as the server says over gRPC."""
    grpc = pytest.importorskip("grpc")
    predict = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
    service = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    request, name = predict.PredictRequest(), "text" if tensor.dtype == STRING else "x"
    request.model_spec.name = "twice"
    request.model_spec.signature_name = "text" if tensor.dtype == STRING else "serving_default"
    request.inputs[name].CopyFrom(tensor)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            service.PredictionServiceStub(channel).Predict(request, timeout=40, **options)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details()
