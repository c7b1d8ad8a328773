"""The local server on loopback, with small SavedModels."""

import asyncio
import base64
import logging
import shutil
import socket
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import SentenceClassifier, TransformerEncoder
from keras_headattn.serving import export_classifier, save_signatures, write_examples, write_warmup
from keras_headattn.text import WordTokenizer
from recipes.serve import app
from recipes.serve.models import Model, Signature
from tests.recipes.serve.local_server import local_server, wait_for

TEXTS = ["the cat sat", "a dog", "", "the the cat"]


def numbers_signatures(scale):
    def mixed(ids, flag, name):
        return {"total": tf.reduce_sum(ids, axis=1), "flag": flag, "raw_bytes": name, "name": name}

    def slow(x):
        return {"y": tf.py_function(lambda x: (time.sleep(0.6), x)[1], [x], tf.float32)}

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(x[0] > 5, ["A number must be above 5."])]):
            return {"y": tf.identity(x)}

    floats = tf.TensorSpec((None,), tf.float32, name="x")
    ids = tf.TensorSpec((None, None), tf.int32, name="ids")
    flag, name = tf.TensorSpec((None,), tf.bool, name="flag"), tf.TensorSpec((None,), tf.string, name="name")
    return {
        "serving_default": (lambda x: {"y": scale * x}, [floats]),
        "mixed": (mixed, [ids, flag, name]),
        "refuse": (refuse, [floats]),
        "slow": (slow, [floats]),
    }


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
        save_signatures(numbers_signatures(scale), folder / "numbers")
    return folder


@pytest.fixture(scope="module")
def server(folders):
    with local_server({name: folders / name for name in ("texts", "numbers")}, keep=2) as it:
        yield it


def test_rows_and_columns(server, folders):
    signature = tf.saved_model.load(str(folders / "texts" / "1")).signatures["serving_default"]
    expected = {name: value.numpy() for name, value in signature(text=tf.constant(TEXTS)).items()}
    columns = server.predict({"inputs": TEXTS}, "texts")["outputs"]
    rows = server.predict({"instances": TEXTS}, "texts")["predictions"]
    named = server.predict({"instances": [{"text": text} for text in TEXTS]}, "texts")["predictions"]
    coded = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
    assert rows == named == server.predict({"instances": coded}, "texts")["predictions"]
    assert columns == server.predict({"inputs": {"text": TEXTS}}, "texts")["outputs"]
    classes = [[name.decode() for name in row] for row in expected["classes"]]
    assert [row["classes"] for row in rows] == columns["classes"] == classes
    np.testing.assert_allclose([row["scores"] for row in rows], expected["scores"], rtol=1e-6)
    np.testing.assert_allclose(columns["scores"], expected["scores"], rtol=1e-6)


def test_one_output_and_many(server):
    assert server.predict({"instances": [1, 2.5]}) == {"predictions": [3.0, 7.5]}
    assert server.predict({"inputs": [0.1]}) == {"outputs": [0.3]}  # as few digits as it has
    row = {"ids": [1, 2], "flag": True, "name": "é"}
    rows = server.predict({"signature_name": "mixed", "instances": [row, row | {"flag": False}]})["predictions"]
    raw = {"b64": base64.b64encode("é".encode()).decode()}
    assert rows[1] == {"flag": False, "name": "é", "raw_bytes": raw, "total": 3}


def test_attention(server):
    rows = server.predict({"signature_name": "attention", "instances": TEXTS[:2]}, "texts")["predictions"]
    length = len(rows[0]["pieces"])  # padded to one of few lengths
    assert [[piece for piece in row["pieces"] if piece] for row in rows] == [["the", "cat", "sat"], ["a", "dog"]]
    assert np.shape(rows[0]["weights"]) == (1, 2, length, length) and np.shape(rows[0]["pooling"]) == (3, length)
    np.testing.assert_allclose(np.sum(rows[0]["weights"], -1)[..., :3], 1, rtol=1e-5)
    np.testing.assert_array_equal(np.array(rows[0]["weights"])[..., 3:], 0)


def test_versions_and_metadata(server):
    for path, scale in (("", 3), ("/versions/1", 2), ("/versions/2", 3)):
        assert server.ask(f"/v1/models/numbers{path}:predict", {"instances": [1]})[1] == {"predictions": [scale]}
    _, status, _ = server.ask("/v1/models/numbers")
    available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert status == {"model_version_status": [{"version": "2"} | available, {"version": "1"} | available]}
    _, status, _ = server.ask("/v1/models/numbers/versions/1")
    assert status["model_version_status"] == [{"version": "1"} | available]
    _, metadata, _ = server.ask("/v1/models/texts/metadata")
    assert metadata["model_spec"] == {"name": "texts", "signature_name": "", "version": "1"}
    definitions = metadata["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "attention"} <= set(definitions)
    text = definitions["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING" and text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    assert definitions["serving_default"]["method_name"] == "tensorflow/serving/predict"


def test_page_and_health(server, tmp_path):
    status, page, headers = server.ask("/")
    assert status == 200 and "<title>" in page and headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "script-src 'self'" in policy
    assert server.ask("/models.json")[1]["models"] == [
        {"name": "texts", "takes_text": True, "examples": [{"text": "the cat"}]},
        {"name": "numbers", "takes_text": False, "examples": []},
    ]
    assert {server.ask(f"/page.{kind}")[0] for kind in ("css", "js")} == {200}
    assert server.ask("/healthz")[:2] == (200, {"status": "ok"})
    with local_server({"empty": tmp_path}) as empty:
        assert empty.ask("/healthz")[:2] == (503, {"error": "No version is loaded of empty."})
        assert empty.ask("/v1/models/empty:predict", {"instances": [1]})[0] == 404


def test_pages_elsewhere_that_may_ask(folders):
    origin = "http://localhost:9"
    with local_server({"numbers": folders / "numbers"}, origins=[origin]) as server:
        for path, body, more in (
            ("/v1/models/numbers:predict", {"instances": [1]}, {}),
            ("/models.json", None, {}),
            ("/v1/models/numbers:predict", None, {"Access-Control-Request-Method": "POST"}),
        ):
            status, _, headers = server.ask(path, body, "OPTIONS" if more else None, {"Origin": origin} | more)
            assert status == 200 and headers["Access-Control-Allow-Origin"] == origin
        assert f" {origin};" in server.ask("/")[2]["Content-Security-Policy"]


def test_answers_are_not_held_back():
    """An answer is written in two parts: the second does not wait until the peer has confirmed the first."""
    with app.listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        with listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_requests_are_run_together():
    """While one runs, others wait, and then run as one; each has its own answer."""
    sizes, released = [], threading.Event()

    def double(x):
        sizes.append(len(x))
        assert released.wait(20)
        if 4 in x.numpy():
            raise tf.errors.InvalidArgumentError(None, None, "No number may be 4.")
        return {"y": 2 * x}

    spec = tf.TensorSpec((None,), tf.float32)
    double.structured_input_signature, double.structured_outputs = ((), {"x": spec}), {"y": spec}
    signature = Signature(double)

    async def ask(*sizes):
        tasks = []
        for size in sizes:
            tasks.append(asyncio.create_task(signature.run({"x": np.full(size, size, "float32")})))
            await asyncio.sleep(0.05)
        tasks[1].cancel()  # its client's time is over
        await asyncio.sleep(0.05)
        released.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(ask(1, 2, 3, 40, 30, 4, 5))
    assert sizes == [1, 43, 39, 30, 4, 5]  # at most 64 rows; those of a batch that failed run one by one
    assert isinstance(answers.pop(1), asyncio.CancelledError)
    assert answers.pop(-2).status_code == 400
    assert [answer["y"].tolist() for answer in answers] == [[2.0 * size] * size for size in (1, 3, 40, 30, 5)]


def test_versions_come_and_go(folders, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "recipes.serve")
    folder = tmp_path / "numbers"
    shutil.copytree(folders / "numbers" / "1", folder / "1")
    monkeypatch.setattr(app, "POLL_SECONDS", 0.05)

    with local_server({"numbers": folder}) as server:

        def served():
            status, answer, _ = server.ask("/v1/models/numbers:predict", {"instances": [1]})
            return answer["predictions"][0] if status == 200 else status

        assert served() == 2
        shutil.copytree(folders / "numbers" / "2", tmp_path / "new")
        (tmp_path / "new").rename(folder / "5")
        wait_for(lambda: served() == 3)
        (folder / "7").mkdir()
        (folder / "7" / "saved_model.pb").write_bytes(b"no model")
        wait_for(lambda: len(server.ask("/v1/models/numbers")[1]["model_version_status"]) == 2)
        _, status, _ = server.ask("/v1/models/numbers")
        states = {each["version"]: each for each in status["model_version_status"]}
        assert served() == 3 and states["7"]["state"] == "END" and states["5"]["state"] == "AVAILABLE"
        assert "/" not in states["7"]["status"]["error_message"]
        assert "version 7 cannot be loaded; 5 stays" in caplog.text
        shutil.copytree(folders / "numbers" / "1", folder / "7", dirs_exist_ok=True)  # is copied to its end
        wait_for(lambda: served() == 2)
        shutil.rmtree(folder / "7")
        wait_for(lambda: served() == 3)
        shutil.rmtree(folder / "5")
        shutil.rmtree(folder / "1")
        wait_for(lambda: served() == 404)


def test_a_folder_that_cannot_be_read_unloads_nothing(folders, tmp_path, caplog):
    folder = shutil.copytree(folders / "numbers" / "1", tmp_path / "numbers" / "1").parent
    model = Model("numbers", folder)
    model.poll()
    folder.rename(tmp_path / "elsewhere")
    model.poll()
    assert list(model.loaded) == [1] and "the folder cannot be read" in caplog.text


def test_warm_up_requests_are_run_before_others(folders, tmp_path):
    folder = shutil.copytree(folders / "numbers" / "1", tmp_path / "1")
    for name, loaded in (("serving_default", [1]), ("refuse", [])):  # as a server does, it does not load the second
        write_warmup(folder, {name: [{"x": np.ones(3, "float32")}]})
        model = Model("numbers", tmp_path)
        model.poll()
        assert list(model.loaded) == loaded


def test_stopping_answers_what_has_come(folders):
    body = {"signature_name": "slow", "instances": [7]}
    answers = []
    with local_server({"numbers": folders / "numbers"}) as server:
        # In this process `py_function` works: the model was exported here.
        thread = threading.Thread(target=lambda: answers.append(server.predict(body)))
        thread.start()
        time.sleep(0.3)
    thread.join()
    assert answers == [{"predictions": [7.0]}]
    with pytest.raises(ConnectionError):
        server.ask("/")


def test_limit_of_time(folders):
    with local_server({"numbers": folders / "numbers"}, max_seconds=0.2) as server:
        body = {"signature_name": "slow", "instances": [7]}
        status, answer, _ = server.ask("/v1/models/numbers:predict", body)
        assert (status, answer) == (504, {"error": "The request took longer than 0.2 seconds."})
        assert server.predict({"instances": [1]}) == {"predictions": [3.0]}
