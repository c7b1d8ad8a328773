"""SavedModels of every kind: their warm-up requests, their operations, and that the code of a server runs them."""

import base64
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.framework import op_def_registry

from keras_headattn.serving import write_warmup
from keras_headattn.serving._warmup import MOST, RECORDS, batches, sample_texts
from keras_headattn.text import SentencePieceTokenizer, WordTokenizer, train_sentencepiece
from tests.recipes.serve.local_server import local_server
from tests.serving import check, model_server
from tests.serving.kinds import ENGLISH, TEXT, Exports, graph_arrays
from tests.serving.ops import allowed, operations

TEXT_OPS = {  # tensorflow-text's
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceDetokenizeOp",
    "NormalizeUTF8",
    "FastBertNormalize",
    "FastWordpieceTokenizeWithOffsets",
}
COLUMNS = {"entities": 2, "types": 2, "heads": 1, "relations": 1, "tails": 1}  # of a sample graph
OF_A_CALL = {"stop": (0,), **dict.fromkeys(("seed", "temperature", "top_k", "top_p", "max_tokens", "min_tokens"), ())}
SHAPES = {  # of the requests that each model is exported with
    "translator": [(name, {"text": (size,)}) for name in ("serving_default", "n_best") for size in (1, 8)]
    + [("constrained", {"text": (size,), "prefix": (size,), "min_length": (size,)}) for size in (1, 8)],
    "ids_translator": [("serving_default", {"ids": (size, 16)}) for size in (1, 8)]
    + [("constrained", {"ids": (size, 16), "prefix": (size, 1), "min_length": (size,)}) for size in (1, 8)],
    "classifier_words": [("serving_default", {"text": (size,), "second_text": (size,)}) for size in (1, 8, 1, 8)],
    "classifier_pieces": [("serving_default", {"text": (size,)}) for size in (1, 8) * 4],
    "pairs_word_pieces": [("serving_default", {"text": (size,), "second_text": (size,)}) for size in (1, 8, 1, 8)],
    "pairs_bytes": [("serving_default", {"text": (size,), "second_text": (size,)}) for size in (1, 8, 1, 8)],
    "tagger_word_pieces": [("serving_default", {"text": (size,)}) for size in (1, 8, 1, 8)],
    "tagger_bytes": [("serving_default", {"text": (size,)}) for size in (1, 8)],
    "regressor": [("serving_default", {"text": (size,)}) for size in (1, 8) * 4],
    "modernbert": [("serving_default", {"text": (size,)}) for size in (1, 8, 1, 8)],
    "image_classifier": [("serving_default", {"images": (size,)}) for size in (1, 8)],
    **dict.fromkeys(
        ("pixel_classifier", "vit_classifier"),
        [(name, {"images": (size, 8, 8, 3)}) for name in ("serving_default", "uint8") for size in (1, 8)],
    ),
    "graph_to_text": [
        (name, {key: (size, columns) for key, columns in COLUMNS.items()} | {"title": (size,)})
        for name in ("serving_default", "n_best")
        for size in (1, 8)
    ],
    "question_answerer": [("serving_default", {"question": (size,), "context": (size,)}) for size in (1, 8)],
    "generator": [
        (name, {"texts" if name == "score" else "prompts": (size,)} | (OF_A_CALL if name == "generate" else {}))
        for name in ("serving_default", "score", "generate", "attention")
        for size in (1, 8)
    ],
}
KINDS = tuple(SHAPES)


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    return Exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The path of the program that runs a model as a server does."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++, which is not installed")
    libraries = pathlib.Path(tf.sysconfig.get_lib())
    path = tmp_path_factory.mktemp("server") / "serve"
    command = ["g++", "-O0", "-std=c++17", "-w", "-DEIGEN_MAX_ALIGN_BYTES=64", f"-I{tf.sysconfig.get_include()}"]
    command += [str(pathlib.Path(__file__).with_name("serve.cc")), "-o", str(path), f"-L{libraries}"]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{libraries}"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    return path


def text_libraries(kind):
    """The paths of those operations of tensorflow-text that a kind of model needs."""
    package = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
    return [package / "python" / "ops" / f"_{name}.so" for name in TEXT.get(kind, ())]


def serve(server, path, outputs, *libraries):
    """All outputs that the program makes of the warm-up requests of a model."""
    process = subprocess.run([server, path, outputs, "0", "1", *libraries], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    tensors = tf.data.TFRecordDataset(str(outputs)).as_numpy_iterator()
    return process.stdout, [tf.make_ndarray(tensor_pb2.TensorProto.FromString(tensor)) for tensor in tensors]


def in_python(export):
    model = export.model
    for name, inputs in export.requests:
        found = model.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        yield from (found[key].numpy() for key in sorted(found))


@pytest.mark.parametrize("kind", KINDS)
def test_the_functions_of_a_server_give_the_same_results_as_python(exports, server, kind, tmp_path):
    export = exports[kind]
    printed, found = serve(server, export.path, tmp_path / "outputs", *text_libraries(kind))
    assert [line.split()[0] for line in printed.splitlines()] == ["load", *(name for name, _ in export.requests)]
    for value, expected in zip(found, in_python(export), strict=True):
        assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
        if value.dtype == np.float32:
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(value, expected)


@pytest.fixture(scope="module")
def all_kinds(exports):
    """The local server with a model of each kind."""
    with local_server({kind: export.path.parent for kind, export in exports.items()}) as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
def test_the_local_server_gives_the_same_results(exports, all_kinds, kind):
    expected = in_python(exports[kind])
    for name, inputs in exports[kind].requests:
        columns = {key: as_json(key, inputs[key]) for key in inputs}
        outputs = all_kinds.predict({"signature_name": name, "inputs": columns}, kind)["outputs"]
        for _, value in sorted(outputs.items()) if isinstance(outputs, dict) else [("the only", outputs)]:
            ours = next(expected)
            if ours.dtype == np.float32:
                np.testing.assert_allclose(value, ours, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(
                    value, np.char.decode(ours.astype(bytes)) if ours.dtype == object else ours
                )


@pytest.mark.parametrize("kind", ["translator", "classifier_pieces", "image_classifier", "graph_to_text"])
def test_the_check_of_a_container_compares_answers(exports, kind, monkeypatch):
    """With the local server in the place of the container, which `make serve-check` runs."""
    commands, stack = [], contextlib.ExitStack()

    def run(command):
        commands.append(command)
        if command[1] == "run":
            (folder,) = (word.removesuffix(":/models/model:ro") for word in command if word.endswith(":ro"))
            return str(stack.enter_context(local_server({"model": folder})).port)
        if command[1] == "port":
            return f"127.0.0.1:{command[2]}"
        assert command[:3] == ["docker", "rm", "--force"]
        stack.close()

    monkeypatch.setattr(model_server, "_run", run)
    export = exports[kind]
    answers = model_server.answers("image:tag", export)
    assert [command[1] for command in commands] == ["run", "port", "rm"] and "image:tag" in commands[0]
    expected = list(check._run_here(export))
    is_wrong, line = check._compare(answers, expected, export.requests, "serving")
    assert not is_wrong and line.startswith(f"{len(expected)} requests, the same"), line
    for key, value in answers[0].items():
        if value.dtype == np.float32:
            answers[0][key] = value * 1.001
            assert check._compare(answers, expected, export.requests, "serving")[0]


def test_a_container_that_does_not_start_is_reported(exports, tmp_path, monkeypatch):
    (tmp_path / "docker").write_text("#!/bin/sh\necho no such image >&2\nexit 125\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = model_server.answers("image:tag", exports["regressor"])
    assert found == "RuntimeError: docker run: no such image"
    assert check._compare(found, [], [], "serving") == (True, "does not run: RuntimeError: docker run: no such image")


def as_json(name, values):
    """Values of an input; the bytes of images in base64."""
    if values.dtype != object:
        return values.tolist()
    if name != "images":
        return np.char.decode(values.astype(bytes)).tolist()
    return [{"b64": base64.b64encode(value).decode()} for value in values]


def test_batches_of_the_sizes_that_the_documentation_names(exports):
    """TensorFlow's own batching, whose library is the server's: requests of single texts run in ones and eights."""
    model = exports["translator"].model
    signature = model.signatures["serving_default"]
    texts = [*ENGLISH, "", "a mat", "no dog sat on the cat"] * 4

    @tf.nondifferentiable_batch_function(
        2, 8, 20_000, allowed_batch_sizes=[1, 8], max_enqueued_batches=100, autograph=False
    )
    def batched(text):
        found = signature(text=text)
        return found["translations"], found["scores"], tf.fill(tf.shape(text), tf.size(text))

    function = tf.function(batched, input_signature=[tf.TensorSpec((None,), tf.string)], autograph=False)
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        found = list(pool.map(lambda text: function(tf.constant([text])), texts))
    assert 8 in {int(size[0]) for *_, size in found} <= {1, 8}
    expected = signature(text=tf.constant(texts))
    assert [row.numpy()[0] for row, *_ in found] == expected["translations"].numpy().tolist()
    np.testing.assert_allclose([score.numpy()[0] for _, score, _ in found], expected["scores"], rtol=1e-5)


def test_texts_that_are_cut_say_so(exports):
    """Of the models that have a limit; other models have no such output."""
    short, long = "the cat", "the cat " * 30
    graphs = [json.dumps({"triples": [[name, "home", "Oslo"]]}) for name in ("Zoë Lee", "Zoë Ann Lee")]
    inputs = {kind: {"text": [short, long]} for kind in ("translator", "classifier_pieces", "regressor")}
    inputs |= {kind: {"text": [short, short], "second_text": [short, long]} for kind in KINDS if "pairs" in kind}
    inputs |= {
        "classifier_words": {"text": [short, long], "second_text": [short, short]},
        "graph_to_text": graph_arrays(graphs),
    }
    for kind in inputs:
        for name, signature in exports[kind].model.signatures.items():
            given = inputs[kind] | ({"prefix": [""], "min_length": [0]} if name == "constrained" else {})
            found = signature(**{name: tf.constant(value) for name, value in given.items()})
            if kind in ("classifier_pieces", "regressor"):
                assert "is_cut" not in found
            else:
                assert found["is_cut"].numpy().tolist() == [False, True], kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_may_be_empty(exports, kind):
    model = exports[kind].model
    for name, inputs in dict(exports[kind].requests).items():
        empty = {key: tf.constant(value[:0] if value.ndim else value) for key, value in inputs.items()}
        found = model.signatures[name](**empty)
        assert {len(value) for value in found.values()} == {0}


def test_text_models_need_the_library_of_tensorflow_text(exports, server, tmp_path):
    command = [server, exports["translator"].path, tmp_path / "outputs", "0", "1"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1 and "Op type not registered 'Sentencepiece" in process.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_operations_and_requests_of_an_export(exports, kind):
    """No new operations, and requests for each signature, length and batch size."""
    export = exports[kind]
    found = operations(export.path)
    assert not found - allowed(kind), "Look whether servers have them; then run python -m tests.serving.ops"
    assert len(found) > 10 and all(op_def_registry.get(name) for name in found)
    assert found & TEXT_OPS == (allowed(kind) & TEXT_OPS if kind in TEXT else set())
    shapes = [(name, {key: value.shape for key, value in inputs.items()}) for name, inputs in export.own]
    assert shapes == SHAPES[kind]
    assert set(export.model.signatures) == {name for name, _ in export.own}
    if kind == "image_classifier":
        found = export.model.signatures["serving_default"](images=tf.constant(export.own[0][1]["images"]))
        assert found["valid"].numpy().all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_messages_are_those_of_tensorflow_serving(exports, kind):
    messages, export = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2"), exports[kind]
    records = tf.data.TFRecordDataset(str(export.path / RECORDS)).as_numpy_iterator()
    for record, (name, inputs) in zip(records, export.requests, strict=True):
        log = messages.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        assert request.model_spec.signature_name == name and request.inputs.keys() == inputs.keys()
        for key, value in inputs.items():
            np.testing.assert_array_equal(tf.make_ndarray(request.inputs[key]), value)


def test_sample_texts_fill_their_lengths(tmp_path):
    pieces = SentencePieceTokenizer(train_sentencepiece(ENGLISH, tmp_path / "a.model", 32))
    foreign = SentencePieceTokenizer(train_sentencepiece(["你好世界", "世界很大"], tmp_path / "b.model", 12))
    for tokenizer in (pieces, foreign, WordTokenizer(["two"])):
        for length, text in zip((16, 32, 50), sample_texts(tokenizer, (16, 32, 50)), strict=True):
            assert length - 2 < len(tokenizer.encode([text])[0]) <= length
    assert sample_texts(pieces, (1,)) == [""]


def test_requests_that_do_not_fit_are_refused(exports, tmp_path):
    path = exports["ids_translator"].path
    before = (path / RECORDS).read_bytes()
    ids = np.ones((1, 4), "int32")
    for requests, message in (
        (
            {"n_best": [{"ids": ids}]},
            r"signatures \['constrained', 'serving_default'\]. Received: requests for 'n_best'",
        ),
        ({"serving_default": [{"text": ids}]}, r"inputs \['ids'\]. Received: \['text'\]"),
        ({"serving_default": [{"ids": ids[0]}]}, r"shape \(None, None\). Received: an array of shape \(4,\)"),
        ({"serving_default": [{"ids": ids}] * (MOST + 1)}, "at most. Received: 1001 requests"),
    ):
        with pytest.raises(ValueError, match=message):
            write_warmup(path, requests)
    assert (path / RECORDS).read_bytes() == before and len(list((path / RECORDS).parent.iterdir())) == 1
    with pytest.raises(OSError):
        write_warmup(tmp_path, {})


def test_rows_that_are_alike_take_no_room(exports, tmp_path):
    path = shutil.copytree(exports["pixel_classifier"].path, tmp_path / "1")
    write_warmup(path, {"uint8": batches("images", [np.zeros((8, 8, 3), "uint8")], (64,))})
    assert (path / RECORDS).stat().st_size < 200
