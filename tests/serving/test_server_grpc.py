"""The local server over gRPC, by the stubs of tensorflow-serving-api."""

import importlib

import pytest
import tensorflow as tf

from keras_headattn.serving import Server
from keras_headattn.serving._versions import save_signatures

grpc = pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving", reason="tensorflow-serving-api is not installed")
from tensorflow_serving.apis import (  # noqa: E402
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    x = tf.TensorSpec((None,), tf.float32, name="x")

    def twice(x):
        return {"y": 2 * x, "text": tf.strings.as_string(x)}

    ten = tf.constant([10.0])

    def add(x, number=ten):
        return {"y": x + number}

    number = tf.TensorSpec((None,), tf.float32, name="number")
    for _ in range(2):
        save_signatures({"serving_default": (twice, [x]), "optional": (add, [x, number])}, folder)
    with Server({"twice": folder}, port=0, grpc_port=0, keep=2, labels={"old": 1}) as server:
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as it:
            yield it


def request(values=(1.0, 2.5), name="twice", dtype=tf.float32, **spec):
    found = predict_pb2.PredictRequest()
    found.model_spec.name = name
    for field, value in spec.items():
        setattr(found.model_spec, field, value)
    found.inputs["x"].CopyFrom(tf.make_tensor_proto(values, dtype))
    return found


def test_predictions(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = stub.Predict(request(), timeout=20)
    assert tf.make_ndarray(answer.outputs["y"]).tolist() == [2, 5]
    assert answer.model_spec.version.value == 2 and answer.model_spec.signature_name == "serving_default"
    chosen = request(version_label="old")
    chosen.output_filter.append("text")
    answer = stub.Predict(chosen, timeout=20)
    assert answer.model_spec.version.value == 1 and list(answer.outputs) == ["text"]


def test_optional_inputs(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    asked = request(signature_name="optional")
    assert tf.make_ndarray(stub.Predict(asked, timeout=20).outputs["y"]).tolist() == [11, 12.5]
    asked.inputs["number"].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    assert tf.make_ndarray(stub.Predict(asked, timeout=20).outputs["y"]).tolist() == [2, 4.5]
    del asked.inputs["x"]
    with pytest.raises(grpc.RpcError, match="The inputs must be number, x. Received: number"):
        stub.Predict(asked, timeout=20)


@pytest.mark.parametrize("arguments, code, message", [
    (dict(name="none"), "NOT_FOUND", "Servable not found"),
    (dict(signature_name="no"), "INVALID_ARGUMENT", "not found in signature def"),
    (dict(dtype=tf.float64), "INVALID_ARGUMENT", "must be float32 of shape .* Received: float64"),
    (dict(values=[[1.0]]), "INVALID_ARGUMENT", "must be float32 of shape"),
    (dict(values=[1.0] * 1025), "INVALID_ARGUMENT", "may have 1024 rows"),
    (dict(version_label="new"), "INVALID_ARGUMENT", "Unrecognized servable version label"),
])  # fmt: skip
def test_errors(channel, arguments, code, message):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    with pytest.raises(grpc.RpcError, match=message) as caught:
        stub.Predict(request(**arguments), timeout=20)
    assert caught.value.code() == getattr(grpc.StatusCode, code)


@pytest.mark.parametrize("method, module", [
    ("Classify", "classification"), ("Regress", "regression"), ("MultiInference", "inference"),
])  # fmt: skip
def test_other_methods_are_refused_without_a_traceback(channel, method, module, caplog):
    name = "MultiInferenceRequest" if module == "inference" else f"{module.title()}Request"
    asked = getattr(importlib.import_module(f"tensorflow_serving.apis.{module}_pb2"), name)()
    with pytest.raises(grpc.RpcError, match="answers Predict, GetModelMetadata and GetModelStatus alone") as caught:
        getattr(prediction_service_pb2_grpc.PredictionServiceStub(channel), method)(asked, timeout=20)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert caplog.text == ""


def test_messages_that_are_no_protobuf(channel, caplog):
    call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    with pytest.raises(grpc.RpcError, match="no request of this method") as caught:
        call(b"\xff" * 9, timeout=20)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert caplog.text == ""


def test_metadata_and_status(channel):
    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    asked.model_spec.name = "twice"
    answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).GetModelMetadata(asked, timeout=20)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(found)
    assert set(found.signature_def["serving_default"].outputs) == {"y", "text"}
    asked = get_model_status_pb2.GetModelStatusRequest()
    asked.model_spec.name = "twice"
    answer = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(asked, timeout=20)
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert [(each.version, each.state) for each in answer.model_version_status] == [(2, available), (1, available)]
