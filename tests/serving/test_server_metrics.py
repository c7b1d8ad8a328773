"""What `/metrics` and `/healthz` of the local server say, read by Prometheus's own parser."""

import json
import shutil
import urllib.error
import urllib.request

import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families

from keras_headattn.serving import Server
from keras_headattn.serving._versions import save_signatures


@pytest.fixture
def folder(tmp_path):
    x = tf.TensorSpec((None,), tf.float32, name="x")

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(x[0] > 5, ["A number must be above 5."])]):
            return {"y": tf.identity(x)}

    save_signatures({"serving_default": (lambda x: {"y": 2 * x}, [x]), "refuse": (refuse, [x])}, tmp_path / "twice")
    return tmp_path / "twice"


def ask(server, path, body=None):
    """Status and bytes of an answer."""
    try:
        with urllib.request.urlopen(server.url + path, body and json.dumps(body).encode()) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def samples(server, name):
    """Values of a metric's samples by the values of their labels, in the order of the names."""
    families = text_string_to_metric_families(ask(server, "/metrics")[1].decode())
    found = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in found}


def test_requests_are_counted_by_what_answered_them(folder):
    with Server({"twice": folder}, port=0) as server:
        for body in ({"instances": [1]}, {"instances": [2]}, {"signature_name": "refuse", "instances": [1]}):
            ask(server, "/v1/models/twice:predict", body)
        ask(server, "/v1/models/twice")
        # The labels, sorted: code, model, protocol, signature, version.
        assert samples(server, "headattn_requests_total") == {
            ("200", "twice", "rest", "serving_default", "1"): 2,
            ("400", "twice", "rest", "refuse", "1"): 1,
            ("200", "", "rest", "", ""): 1,
        }
        assert samples(server, "headattn_request_seconds_count") == {
            ("twice", "rest", "serving_default", "1"): 2,
            ("twice", "rest", "refuse", "1"): 1,
        }
        times = samples(server, "headattn_request_seconds_sum")
        assert all(0 < seconds < 60 for seconds in times.values())
        assert samples(server, "headattn_version_loaded") == {("twice", "1"): 1}
        assert samples(server, "process_resident_memory_bytes")[()] > 2**20


def test_labels_are_never_those_of_requests(folder):
    with Server({"twice": folder}, port=0) as server:
        for number in range(20):
            for path in (
                f"x{number}:predict",
                f"twice/versions/{number + 7}:predict",
                f"twice/labels/x{number}:predict",
            ):
                ask(server, f"/v1/models/{path}", {"instances": [1]})
            ask(server, "/v1/models/twice:predict", {"signature_name": f"x{number}", "instances": [1]})
            ask(server, f"/v1/x{number}")
            ask(server, f"/x{number}")
        assert samples(server, "headattn_requests_total") == {
            ("404", "", "rest", "", ""): 40,
            ("400", "", "rest", "", ""): 60,
        }
        assert samples(server, "headattn_request_seconds_count") == {}


def test_unloaded_versions_leave(folder):
    with Server({"twice": folder}, port=0) as server:
        ask(server, "/v1/models/twice:predict", {"instances": [1]})
        assert samples(server, "headattn_version_loaded") == {("twice", "1"): 1}
        shutil.copytree(folder / "1", folder / ".2")
        (folder / ".2").rename(folder / "2")
        server.models["twice"].poll()
        assert samples(server, "headattn_version_loaded") == {("twice", "2"): 1}
        assert samples(server, "headattn_requests_total") == {}


def test_health(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with Server({"twice": folder, "empty": tmp_path / "empty"}, port=0) as server:
        status, body = ask(server, "/healthz")
        assert status == 503 and json.loads(body) == {"error": "No version is loaded of empty."}
        shutil.copytree(folder / "1", tmp_path / "empty" / "1")
        server.models["empty"].poll()
        assert ask(server, "/healthz") == (200, b'{\n "status": "ok"\n}')


def test_grpc_is_counted_too(folder):
    grpc = pytest.importorskip("grpc")
    apis = pytest.importorskip("tensorflow_serving.apis", reason="tensorflow-serving-api is not installed")
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: F401

    with Server({"twice": folder}, port=0, grpc_port=0) as server:
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for name in ("twice", "other"):
                request = apis.predict_pb2.PredictRequest()
                request.model_spec.name = name
                request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0]))
                if name == "twice":
                    stub.Predict(request, timeout=20)
                else:
                    with pytest.raises(grpc.RpcError):
                        stub.Predict(request, timeout=20)
        assert samples(server, "headattn_requests_total") == {
            ("OK", "twice", "grpc", "serving_default", "1"): 1,
            ("NOT_FOUND", "", "grpc", "", ""): 1,
        }
