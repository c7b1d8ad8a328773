"""The gRPC services of TensorFlow Serving, on the stubs of tensorflow-serving-api."""

import asyncio
import concurrent.futures
import json
import logging

import tensorflow as tf

from headattn_io.optional import optional_import
from keras_headattn.serving._server_json import RequestError, wrong

log = logging.getLogger("keras_headattn.serving")
CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 503: "UNAVAILABLE"}


def start_grpc(server, port):
    """Starts the services `Predict`, `GetModelMetadata` and `GetModelStatus`.

    Args:
        server: `Server` that is started.
        port: int; 0: any that is free.

    Returns:
        Tuple of the gRPC server and its port.

    Raises:
        ImportError: if tensorflow-serving-api is not installed.
        OSError: if it cannot listen.
    """
    apis = "tensorflow_serving.apis"
    names = ("prediction_service_pb2_grpc", "model_service_pb2_grpc", "predict_pb2", "get_model_metadata_pb2")
    prediction, model, predict, metadata = (optional_import(f"{apis}.{name}", extra="serving") for name in names)
    status = optional_import(f"{apis}.get_model_status_pb2", extra="serving")
    grpc = optional_import("grpc")
    from google.protobuf import json_format

    def answering(method):
        """A method of a service, whose errors have TensorFlow Serving's codes."""

        def answer(self, request, context):
            try:
                return method(request)
            except RequestError as error:
                context.abort(getattr(grpc.StatusCode, CODES.get(error.status, "INTERNAL")), error.message)
            except (TimeoutError, concurrent.futures.TimeoutError):
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"The answer took longer than {server.max_seconds} s.")
            except Exception:
                log.exception("A request failed")
                context.abort(grpc.StatusCode.INTERNAL, "The server failed: its log has the reason.")

        return answer

    def find(spec):
        number = spec.version.value if spec.HasField("version") else None
        return server.find(spec.name, number, spec.version_label or None)

    def run(request):
        number, version = find(request.model_spec)
        name = request.model_spec.signature_name or "serving_default"
        signature = version.signature(name)
        outputs = _wait(server, signature, _arrays(request.inputs, signature.inputs))
        answer = predict.PredictResponse()
        answer.model_spec.CopyFrom(request.model_spec)
        answer.model_spec.version.value, answer.model_spec.signature_name = number, name
        chosen = set(request.output_filter) or set(outputs)
        if unknown := chosen - set(outputs):
            raise wrong(f"output tensor alias not found in signature: {min(unknown)}")
        for each in chosen:
            answer.outputs[each].CopyFrom(tf.make_tensor_proto(outputs[each]))
        return answer

    def describe(request):
        number, version = find(request.model_spec)
        answer = metadata.GetModelMetadataResponse()
        answer.model_spec.name = request.model_spec.name
        answer.model_spec.version.value = number
        found = metadata.SignatureDefMap()
        for name, definition in version.protos.items():
            found.signature_def[name].CopyFrom(definition)
        answer.metadata["signature_def"].Pack(found)
        return answer

    def report(request):
        spec = request.model_spec
        number = spec.version.value if spec.HasField("version") else None
        found = server.status_of(spec.name, number, spec.version_label or None)
        return json_format.Parse(json.dumps(found), status.GetModelStatusResponse())

    def refuse(self, request, context):
        answered = "Predict, GetModelMetadata and GetModelStatus"
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"This server answers {answered} alone.")

    def service(base, **methods):
        """The methods of a service. Those that its base does not implement would print a traceback."""
        others = {name: refuse for name in vars(base) if not name.startswith("_")}
        return type(base.__name__, (base,), others | {name: answering(each) for name, each in methods.items()})()

    options = [("grpc.max_receive_message_length", server.max_bytes), ("grpc.so_reuseport", 0)]
    pool = concurrent.futures.ThreadPoolExecutor(16, thread_name_prefix="grpc")
    listener = grpc.server(pool, options=options, maximum_concurrent_rpcs=256)
    predictions = service(prediction.PredictionServiceServicer, Predict=run, GetModelMetadata=describe)
    prediction.add_PredictionServiceServicer_to_server(predictions, listener)
    model.add_ModelServiceServicer_to_server(service(model.ModelServiceServicer, GetModelStatus=report), listener)
    address = f"[{server.host}]" if ":" in server.host else server.host
    try:
        port = listener.add_insecure_port(f"{address}:{port}")
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"Give another --grpc-port. Received: {address}, whose port is taken")
    listener.start()
    return listener, port


def _arrays(inputs, specs):
    """The tensors of a request as arrays.

    Raises:
        RequestError: if they do not fit the signature.
    """
    if inputs.keys() != specs.keys():
        raise wrong(f"The inputs must be {', '.join(sorted(specs))}. Received: {', '.join(sorted(inputs)) or 'none'}")
    arrays = {}
    for name, spec in specs.items():
        try:
            array = tf.make_ndarray(inputs[name])
        except (TypeError, ValueError):
            raise wrong(f"Input {name} is no tensor.") from None
        if tf.as_dtype(inputs[name].dtype) != spec.dtype or not spec.shape.is_compatible_with(array.shape):
            received = f"{tf.as_dtype(inputs[name].dtype).name} of shape {array.shape}"
            raise wrong(f"Input {name} must be {spec.dtype.name} of shape {spec.shape}. Received: {received}")
        arrays[name] = array
    return arrays


def _wait(server, signature, arrays):
    future = asyncio.run_coroutine_threadsafe(server.run(signature, arrays), server.loop)
    try:
        return future.result(server.max_seconds)
    finally:
        future.cancel()
