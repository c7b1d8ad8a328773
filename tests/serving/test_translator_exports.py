import json
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_headattn.data import pad_ids
from keras_headattn.decoding import Searcher, Shortlist
from keras_headattn.layers import InteractingHeadAttention, MultiHeadAttention
from keras_headattn.models import Transformer
from keras_headattn.positions import LearnedPositions
from keras_headattn.serving import export_id_translator, export_translator
from keras_headattn.serving._translator_exports import shortlisted
from keras_headattn.text import SentencePieceTokenizer, train_sentencepiece

ENGLISH = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
GERMAN = ["die Katze saß auf der Matte", "ein Hund lief der Katze nach", "keine Katze saß still"]
BATCHES = [ENGLISH, ["mat"], ["the dog sat after the other dogs on the mat " * 2, ""]]


def make_searcher(source_size=32, target_size=32, beam_size=3, attention=None, **kwargs):
    random = np.random.default_rng(3)
    attention = attention or MultiHeadAttention(2, 8)
    shape = dict(num_layers=1, hidden_dim=16, intermediate_dim=32)
    model = Transformer(source_size, target_size, attention=attention, **shape, **kwargs)
    model.build()
    for weight in model.trainable_weights:  # large ones, so that translations differ
        if weight.name not in ("gamma", "beta"):
            weight.assign(random.normal(size=weight.shape) * 4 / weight.shape[-1] ** 0.5)
    return Searcher(model, beam_size, max_length=8)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabularies")
    return (
        train_sentencepiece(ENGLISH, folder / "source.model", 32),
        train_sentencepiece(GERMAN, folder / "target.model", 32),
    )


@pytest.fixture
def tokenizers(vocabularies):
    # Made anew for each test: `keras.backend.clear_session` frees what tensorflow-text holds for them.
    return [SentencePieceTokenizer(path) for path in vocabularies]


@pytest.fixture(scope="module")
def exported(vocabularies, tmp_path_factory):
    """A searcher and the paths of its SavedModels, of text and of ids."""
    folder = tmp_path_factory.mktemp("serving")
    source, target = (SentencePieceTokenizer(path) for path in vocabularies)
    searcher = make_searcher()
    text = export_translator(searcher, source, target, folder / "text", xla_signature=True)
    return searcher, text, export_id_translator(searcher, folder / "ids")


def in_fresh_process(script, *arguments):
    """The JSON that a script without this library prints."""
    blocked = "import sys, json\nsys.modules['keras_headattn'] = None\n"
    command = [sys.executable, "-I", "-c", blocked + textwrap.dedent(script), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_text_model_in_a_fresh_process(exported, tokenizers):
    (searcher, path, _), (source, target) = exported, tokenizers
    results = in_fresh_process(
        """
        import tensorflow as tf
        import tensorflow_text
        model = tf.saved_model.load(sys.argv[1])
        def run(name, batch):
            outputs = model.signatures[name](text=tf.constant(batch))
            texts, scores = outputs.pop("translations"), outputs.pop("scores")
            assert not outputs
            return [[[t.decode() for t in row] for row in texts.numpy().reshape(len(batch), -1)],
                    scores.numpy().reshape(len(batch), -1).tolist()]
        batches = json.loads(sys.argv[2])
        print(json.dumps({name: [run(name, batch) for batch in batches[:limit]]
                          for name, limit in (("serving_default", 3), ("n_best", 3), ("xla", 1))}))
        """,
        path,
        json.dumps(BATCHES),
    )
    distinct = set()
    for number, batch in enumerate(BATCHES):
        expected = searcher(source(batch))
        texts = [[t.decode() for t in target.detokenize(beam).numpy()] for beam in expected["tokens"]]
        scores = expected["scores"].numpy()
        distinct.update(row[0] for row in texts)
        for name, beams in (("serving_default", 1), ("n_best", 3), ("xla", 1)):
            for found in results[name][number : number + 1]:
                assert found[0] == [row[:beams] for row in texts]
                np.testing.assert_allclose(found[1], scores[:, :beams], rtol=1e-4)
    assert len(distinct) > 3 and max(map(len, distinct)) > 3


def test_ids_model_where_tensorflow_text_cannot_be_imported(exported, tokenizers):
    searcher, text_path, ids_path = exported
    batches = [tokenizers[0](batch).numpy().tolist() for batch in BATCHES]
    results = in_fresh_process(
        """
        sys.modules["tensorflow_text"] = None
        import tensorflow as tf
        from tensorflow.core.protobuf import saved_model_pb2
        from tensorflow.python.framework import op_def_registry
        def unknown_ops(path):
            with open(path + "/saved_model.pb", "rb") as file:
                graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0].graph_def
            functions = {function.signature.name for function in graph.library.function}
            nodes = [graph.node] + [function.node_def for function in graph.library.function]
            ops = {node.op for group in nodes for node in group} - functions
            return sorted(op for op in ops if op_def_registry.get(op) is None)
        model = tf.saved_model.load(sys.argv[1])
        results = []
        for batch in json.loads(sys.argv[3]):
            outputs = model.signatures["serving_default"](ids=tf.constant(batch, tf.int32))
            results.append({name: output.numpy().tolist() for name, output in outputs.items()})
        unknown = [unknown_ops(path) for path in sys.argv[1:3]]
        print(json.dumps({"results": results, "unknown": unknown}))
        """,
        ids_path,
        text_path,
        json.dumps(batches),
    )
    assert results["unknown"][0] == []
    assert "SentencepieceTokenizeOp" in results["unknown"][1]  # so the check can fail
    for batch, found in zip(batches, results["results"], strict=True):
        expected = searcher(np.array(batch, "int32"))
        assert found["ids"] == expected["tokens"].numpy().tolist()
        np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)


def uses_xla(path, signature):
    """Whether a signature reaches a compiled function or an XLA op."""
    graph = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0]
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    outputs = graph.signature_def[signature].outputs.values()
    nodes = {node.name: node for node in graph.graph_def.node}
    waiting, seen = [nodes[output.name.split(":")[0]] for output in outputs], set()
    while waiting:
        node = waiting.pop()
        if node.op.lower().startswith("xla") or node.attr["_XlaMustCompile"].b:
            return True
        names = {value.func.name for value in node.attr.values()}
        names |= {function.name for value in node.attr.values() for function in value.list.func}
        for name in (names & functions.keys()) - seen:
            seen.add(name)
            if functions[name].attr["_XlaMustCompile"].b:
                return True
            waiting.extend(functions[name].node_def)
    return False


def test_only_the_signature_for_xla_is_compiled(exported):
    _, text, ids = exported
    assert uses_xla(text, "xla")
    assert not uses_xla(text, "serving_default")
    assert not uses_xla(text, "n_best")
    assert not uses_xla(ids, "serving_default")


def test_signatures_have_the_documented_shapes(exported):
    _, text, ids = exported
    signatures = tf.saved_model.load(text).signatures
    assert set(signatures) == {"serving_default", "n_best", "constrained", "xla"}
    for name, shape in (("serving_default", [None]), ("n_best", [None, 3]), ("xla", [None])):
        (spec,) = signatures[name].structured_input_signature[1].values()
        assert (spec.name, spec.dtype, spec.shape.as_list()) == ("text", tf.string, [None])
        outputs = signatures[name].structured_outputs
        assert {key: (spec.dtype, spec.shape.as_list()) for key, spec in outputs.items()} == {
            "translations": (tf.string, shape),
            "scores": (tf.float32, shape),
        }
    signatures = tf.saved_model.load(ids).signatures
    assert set(signatures) == {"serving_default", "constrained"}
    signature = signatures["serving_default"]
    (spec,) = signature.structured_input_signature[1].values()
    assert (spec.name, spec.dtype, spec.shape.as_list()) == ("ids", tf.int32, [None, None])
    outputs = signature.structured_outputs
    assert {key: (spec.dtype, spec.shape.as_list()) for key, spec in outputs.items()} == {
        "ids": (tf.int32, [None, 3, 8]),
        "scores": (tf.float32, [None, 3]),
    }


def test_shortlists(exported, tokenizers, tmp_path):
    (searcher, _, _), (source, target) = exported, tokenizers
    table = np.random.default_rng(1).integers(4, 32, (32, 3)).astype("int32")
    shortlist = Shortlist(table, always=[4, 5, 6, 7], size=14)
    path = export_translator(searcher, source, target, tmp_path, shortlist=shortlist, warmup_batch_sizes=())
    signatures = tf.saved_model.load(path).signatures
    ids = source(ENGLISH).numpy()
    prefix = np.array([[8, 9], [0, 0], [20, 0]], "int32")
    for also in ((), prefix):
        made = shortlisted(shortlist, tf.constant(ids), prefix if len(also) else None)
        np.testing.assert_array_equal(made, shortlist.ids(ids, also))
    expected = searcher(ids, shortlist=shortlist.ids(ids))
    found = signatures["n_best"](text=tf.constant(ENGLISH))
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)
    assert not np.allclose(found["scores"], searcher(ids)["scores"])
    asked = dict(text=tf.constant(ENGLISH), prefix=tf.constant(["Katze"]), min_length=tf.constant([0]))
    texts = signatures["constrained"](**asked)["translations"].numpy()
    assert all(text.decode().startswith("Katze") for text in texts[:, 0])
    empty = signatures["serving_default"](text=tf.constant([], tf.string))
    assert empty["translations"].shape == (0,)
    of_ids = tf.saved_model.load(export_id_translator(searcher, tmp_path / "ids", shortlist=shortlist)).signatures
    found = of_ids["serving_default"](ids=tf.constant(ids))
    np.testing.assert_array_equal(found["ids"], expected["tokens"])
    with pytest.raises(ValueError, match="must be of the vocabularies, of 32 and 32 tokens. Received: a table of 31"):
        export_id_translator(searcher, tmp_path / "ids", shortlist=Shortlist(table[:31], size=14))


def test_an_empty_batch_of_text(exported):
    model = tf.saved_model.load(exported[1])
    outputs = model.signatures["serving_default"](text=tf.constant([], tf.string))
    assert outputs["translations"].shape == outputs["scores"].shape == (0,)
    empty = dict(text=tf.constant([], tf.string), prefix=tf.constant([""]), min_length=tf.constant([0]))
    assert model.signatures["constrained"](**empty)["translations"].shape == (0, 3)


def optional_inputs(path):
    definition = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    defaults = definition.meta_graphs[0].signature_def["constrained"].defaults
    return {name: tf.make_ndarray(value).tolist() for name, value in defaults.items()}


def test_constraints_of_requests(exported, tokenizers):
    (searcher, text_path, ids_path), (source, target) = exported, tokenizers
    assert optional_inputs(text_path) == {"prefix": [b""], "min_length": [0]}
    assert optional_inputs(ids_path) == {"prefix": [[0]], "min_length": [0]}
    prefix = target(["die", "", "keine"])
    prefix = tf.where(prefix == target.eos_id, 0, prefix)
    least = tf.constant([7, 0, 3])
    expected = searcher(source(ENGLISH), prefix=prefix, min_length=least)
    assert (expected["tokens"].numpy() != searcher(source(ENGLISH))["tokens"].numpy()).any((1, 2)).tolist() != [
        False
    ] * 3
    constrained = tf.saved_model.load(text_path).signatures["constrained"]
    found = constrained(text=tf.constant(ENGLISH), prefix=tf.constant(["die", "", "keine"]), min_length=least)
    for row, beam in zip(found["translations"].numpy(), expected["tokens"], strict=True):
        assert row.tolist() == target.detokenize(beam).numpy().tolist()
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)
    constrained = tf.saved_model.load(ids_path).signatures["constrained"]
    found = constrained(ids=source(ENGLISH), prefix=prefix, min_length=least)
    np.testing.assert_array_equal(found["ids"], expected["tokens"])


@pytest.mark.parametrize("asked, message", [
    (dict(prefix=tf.constant(["die Katze saß auf der Matte"])), "A prefix must have at most 8 tokens"),
    (dict(min_length=tf.constant([0, 8, 0])), "`min_length` must be below 8"),
])  # fmt: skip
def test_wrong_constraints_of_requests(exported, asked, message):
    constrained = tf.saved_model.load(exported[1]).signatures["constrained"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        constrained(**dict(text=tf.constant(ENGLISH), prefix=tf.constant([""]), min_length=tf.constant([0])) | asked)


@pytest.mark.parametrize("kwargs", [
    dict(beam_size=2, min_length=3, no_repeat_ngram_size=2, repetition_penalty=1.5, suppress=[0, 5]),
    dict(num_samples=4, temperature=0.7, top_k=9, top_p=0.9, seed=3, suppress=[0]),
], ids=["beam", "samples"])  # fmt: skip
def test_saved_models_search_with_all_options(exported, tokenizers, tmp_path, kwargs):
    source, target = tokenizers
    searcher = Searcher(exported[0].model, max_length=8, return_token_scores=True, **kwargs)
    path = export_translator(searcher, source, target, tmp_path, warmup_batch_sizes=())
    assert optional_inputs(path)["min_length"] == [kwargs.get("min_length", 0)]
    found = tf.saved_model.load(path).signatures["n_best"](text=tf.constant(ENGLISH))
    expected = searcher(source(ENGLISH))
    number = kwargs.get("num_samples", 2)
    assert found["translations"].shape == (3, number) and found["pieces"].shape == (3, number, 8)
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)
    np.testing.assert_allclose(found["token_scores"], expected["token_scores"], rtol=1e-4, atol=1e-5)
    tokens = expected["tokens"].numpy()[0, 0]
    names = [target.id_to_token(token) if token else "" for token in tokens.tolist()]
    assert [piece.decode() for piece in found["pieces"].numpy()[0, 0]] == names


def test_greedy_search_of_a_model_on_two_replicas(tmp_path, capfd):
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        attention = InteractingHeadAttention(2, 8)
        searcher = make_searcher(target_size=None, beam_size=1, attention=attention, positions=LearnedPositions(20))
    capfd.readouterr()
    path = export_id_translator(searcher, tmp_path, run="replicas")
    assert capfd.readouterr().out == ""
    ids = np.array([[5, 9, 12, 3, 0], [7, 3, 0, 0, 0]], "int32")
    model = tf.saved_model.load(path)
    found, expected = model.signatures["serving_default"](ids=tf.constant(ids)), searcher(ids)
    np.testing.assert_array_equal(found["ids"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)


def test_models_of_two_vocabularies_in_one_process(exported, tokenizers, tmp_path):
    searcher, path, _ = exported
    models = [tf.saved_model.load(path)]
    target = tokenizers[1]
    models.append(tf.saved_model.load(export_translator(searcher, target, target, tmp_path)))
    for model, source in zip(models, tokenizers, strict=True):
        found = model.signatures["serving_default"](text=tf.constant(ENGLISH))
        expected = searcher(source(ENGLISH))
        texts = target.detokenize(expected["tokens"][:, 0])
        assert found["translations"].numpy().tolist() == texts.numpy().tolist()
        np.testing.assert_allclose(found["scores"], expected["scores"][:, 0], rtol=1e-4)


def test_long_sources_are_cut(exported, tokenizers, tmp_path):
    searcher, (source, target) = exported[0], tokenizers
    model = tf.saved_model.load(export_translator(searcher, source, target, tmp_path, max_source_length=9))
    for batch in BATCHES:
        found = model.signatures["serving_default"](text=tf.constant(batch))
        ids = [ids if len(ids) <= 9 else [*ids[:8], source.eos_id] for ids in source.encode(batch)]
        expected = searcher(pad_ids(ids, len(ids), max(map(len, ids))))
        texts = target.detokenize(expected["tokens"][:, 0])
        assert found["translations"].numpy().tolist() == texts.numpy().tolist()
        np.testing.assert_allclose(found["scores"], expected["scores"][:, 0], rtol=1e-4)
    assert max(map(len, source.encode(BATCHES[-1]))) > 9


def test_no_room_for_text(tmp_path):
    tokenizer = types.SimpleNamespace(eos_id=3)
    searcher = types.SimpleNamespace(end_id=3, model=None, max_length=8)
    with pytest.raises(ValueError, match="Received: max_source_length=1"):
        export_translator(searcher, tokenizer, tokenizer, tmp_path, max_source_length=1)


def test_another_end_symbol_than_the_tokenizers(exported, tokenizers, tmp_path):
    other = Searcher(exported[0].model, 2, end_id=7)
    with pytest.raises(ValueError, match="Received: searcher.end_id=7"):
        export_translator(other, *tokenizers, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_folders_of_other_runs_are_refused(exported, tokenizers, tmp_path):
    (tmp_path / "1" / "assets.extra").mkdir(parents=True)
    (tmp_path / "1" / "assets.extra" / "run.txt").write_text("theirs\n")
    for export, tokens in ((export_id_translator, ()), (export_translator, tokenizers)):
        with pytest.raises(ValueError, match="another run, theirs,.*run='ours'"):
            export(exported[0], *tokens, tmp_path, run="ours")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_failed_export_leaves_nothing(exported, tmp_path, monkeypatch):
    save = tf.saved_model.save

    def fail(module, path, signatures):
        save(tf.Module(), path)
        raise tf.errors.ResourceExhaustedError(None, None, "no space left on device")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    (tmp_path / "1").mkdir()
    with pytest.raises(OSError, match="no space left"):
        export_id_translator(exported[0], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
