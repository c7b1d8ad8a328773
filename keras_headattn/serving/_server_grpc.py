"""TensorFlow Serving's gRPC services."""

import concurrent.futures
import json
import logging

import tensorflow as tf

from keras_headattn._optional import optional_import
from keras_headattn.serving._server_json import RequestError, bad_request, check_text, text_limit
from keras_headattn.serving._server_models import find_version, status_of

log = logging.getLogger("keras_headattn.serving")
CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 503: "UNAVAILABLE"}
THREADS, MOST_CALLS, MOST_CONNECTIONS = 16, 256, 128


def make_grpc(server, port):
    """Returns a gRPC server of `Predict`, `GetModelMetadata` and `GetModelStatus`, not yet started, and its port."""
    prediction = _api("prediction_service_pb2_grpc")
    model = _api("model_service_pb2_grpc")
    grpc = optional_import("grpc", extra="serving")
    options = {
        "grpc.max_receive_message_length": server.max_bytes,
        "grpc.max_allowed_incoming_connections": MOST_CONNECTIONS,
        "grpc.max_connection_idle_ms": int(server.read_seconds * 1000),  # clients connect again by themselves
        "grpc.server_handshake_timeout_ms": int(server.read_seconds * 1000),
        "grpc.so_reuseport": 0,
    }
    pool = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="grpc")
    listener = grpc.server(
        pool, interceptors=[_reader(grpc)], options=list(options.items()), maximum_concurrent_rpcs=MOST_CALLS
    )
    calls = Calls(server)
    answered = {"Predict": calls.predict, "GetModelMetadata": calls.describe}
    predictions = _service(prediction.PredictionServiceServicer, server.metrics, **answered)
    prediction.add_PredictionServiceServicer_to_server(predictions, listener)
    statuses = _service(model.ModelServiceServicer, server.metrics, GetModelStatus=calls.report)
    model.add_ModelServiceServicer_to_server(statuses, listener)
    address = f"[{server.host}]" if ":" in server.host else server.host
    try:
        bound = listener.add_insecure_port(f"{address}:{port}")
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(f"Give another --grpc-port or --host. Received: {address}:{port}, which is taken")
    return listener, bound


def _reader(grpc):
    """Returns an interceptor that passes on the error of a message that is no protobuf; gRPC would log it."""
    from google.protobuf.message import DecodeError

    def lenient(read):
        def deserialize(data):
            try:
                return read(data)
            except DecodeError as error:
                return error

        return deserialize

    class Reader(grpc.ServerInterceptor):
        def intercept_service(self, continuation, details):
            handler = continuation(details)
            if handler is None:
                return None
            return grpc.unary_unary_rpc_method_handler(
                handler.unary_unary, lenient(handler.request_deserializer), handler.response_serializer
            )

    return Reader()


class Calls:
    def __init__(self, server):
        self.server = server

    def predict(self, request, metrics):
        number, version = find_version(self.server.models, **_which(request))
        name = request.model_spec.signature_name or "serving_default"
        signature = version.signature(name)
        metrics.found(request.model_spec.name, number, name)
        chosen = set(request.output_filter) or set(signature.outputs)
        if unknown := chosen - set(signature.outputs):
            raise bad_request(f"output tensor alias not found in signature: {min(unknown)[:100]}")
        outputs = self._run(signature, self._arrays(request.inputs, signature))
        answer = _api("predict_pb2").PredictResponse()
        answer.model_spec.CopyFrom(request.model_spec)
        answer.model_spec.version.value, answer.model_spec.signature_name = number, name
        for each in chosen:
            answer.outputs[each].CopyFrom(tf.make_tensor_proto(outputs[each]))
        return answer

    def describe(self, request, metrics):
        metadata = _api("get_model_metadata_pb2")
        number, version = find_version(self.server.models, **_which(request))
        answer = metadata.GetModelMetadataResponse()
        answer.model_spec.name = request.model_spec.name
        answer.model_spec.version.value = number
        signatures = metadata.SignatureDefMap()
        for name, definition in version.protos.items():
            signatures.signature_def[name].CopyFrom(definition)
        answer.metadata["signature_def"].Pack(signatures)
        return answer

    def report(self, request, metrics):
        from google.protobuf import json_format

        states = status_of(self.server.models, **_which(request))
        return json_format.Parse(json.dumps(states), _api("get_model_status_pb2").GetModelStatusResponse())

    def _run(self, signature, arrays):
        future = signature.submit(arrays, self.server.max_rows)
        try:
            return future.result(self.server.max_seconds)
        finally:
            future.cancel()

    def _arrays(self, inputs, signature):
        specs, optional = signature.inputs, signature.defaults.keys()
        if not specs.keys() - optional <= inputs.keys() <= specs.keys():
            names = [", ".join(sorted(each)) for each in (specs, inputs)]
            raise bad_request(f"The inputs must be {names[0]}. Received: {names[1][:200] or 'none'}")
        return {name: self._array(name, inputs[name], spec) for name, spec in specs.items() if name in inputs}

    def _array(self, name, tensor, spec):
        """Returns a tensor as an array. Its size is checked first, as one value may stand for any number of
        elements."""
        most = self.server.max_bytes
        try:
            dtype, shape = tf.as_dtype(tensor.dtype), tf.TensorShape(tensor.tensor_shape)
            if dtype != spec.dtype or not shape.is_fully_defined() or not spec.shape.is_compatible_with(shape):
                received = f"{dtype.name} of shape {shape}"
                raise bad_request(f"Input {name} must be {spec.dtype.name} of shape {spec.shape}. Received: {received}")
            if shape.num_elements() * (dtype.size or 8) > most:
                raise bad_request(f"Input {name} may have {most:,} bytes. Received: {dtype.name} of shape {shape}")
            array = tf.make_ndarray(tensor)
        except (TypeError, ValueError):
            raise bad_request(f"Input {name} is no tensor.") from None
        if dtype == tf.string:
            if sum(map(len, array.flat)) > most:
                raise bad_request(f"Input {name} may have {most:,} bytes.")
            for text in array.flat:
                check_text(text, text_limit(name, self.server.max_text))
        return array


def _api(name):
    return optional_import(f"tensorflow_serving.apis.{name}", extra="serving")


def _which(request):
    """Returns a request's model name and version number or label, as arguments of `find_version`."""
    spec = request.model_spec
    number = spec.version.value if spec.HasField("version") else None
    return {"name": spec.name, "number": number, "label": spec.version_label or None}


def _service(base, metrics, **methods):
    """Returns a service that refuses all other methods; gRPC's base class would print a traceback for them."""

    def refuse(self, request, context):
        answered = "Predict, GetModelMetadata and GetModelStatus"
        context.abort(_code("UNIMPLEMENTED"), f"This server answers {answered} alone.")

    others = {name: refuse for name in vars(base) if not name.startswith("_")}
    return type(base.__name__, (base,), others | {name: _answering(each, metrics) for name, each in methods.items()})()


def _answering(method, metrics):
    """Wraps a method so that its errors become gRPC status codes, and is counted."""

    def answer(self, request, context):
        counted, code, message = metrics.begin("grpc"), "OK", ""
        try:
            if isinstance(request, Exception):
                raise bad_request("The message is no request of this method.")
            return method(request, counted)
        except RequestError as error:
            code, message = CODES.get(error.status, "INTERNAL"), error.message
        except TimeoutError:
            code, message = "DEADLINE_EXCEEDED", "The answer took too long."
        except Exception:
            log.exception("A request failed")
            code, message = "INTERNAL", "The server failed: its log has the reason."
        finally:
            counted.end(code)
        context.abort(_code(code), message)

    return answer


def _code(name):
    return getattr(optional_import("grpc").StatusCode, name)
