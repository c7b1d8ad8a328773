"""A model that writes the text of a graph: what it computes, decodes and learns."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.decoding import Searcher
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import GraphWriter
from keras_headattn.optimizers import Repulsive
from keras_headattn.optimizers._heads import select_heads
from keras_headattn.regularizers import CosineSimilarity, Disagreement
from tests.models.graphs import SIZES, WORDS, graphs, make, padded, shared
from tests.models.small import array, check_close, dropout_layers

TOLERANCE = 5e-6
SMALL = dict(num_layers=1, num_encoder_layers=1)
LOSS = LabelSmoothedCrossentropy(0.0)


def rows(inputs, *chosen):
    return {name: ids[list(chosen)] for name, ids in inputs.items()}


# ------------------------------------------------------------------------------------------- faults it does not have


def test_a_graph_does_not_depend_on_its_batch():
    """Nor on padding of entities, of their words, of triples and of the title."""
    model, inputs = shared(), graphs()
    together = array(model(inputs))
    check_close(model(rows(inputs, 1)), together[1:], TOLERANCE)
    smaller = rows(inputs, 1) | {"entities": inputs["entities"][1:, :2], "triples": inputs["triples"][1:, :1]}
    smaller |= {"types": inputs["types"][1:, :2], "title": inputs["title"][1:, :2]}
    np.testing.assert_array_equal(inputs["target"][1] < WORDS + 2, True)
    check_close(model(smaller), together[1:, :, :-1], TOLERANCE)
    wider = padded(inputs, entities=2, types=2, triples=3, title=4)
    wider["entities"] = np.pad(wider["entities"], ((0, 0), (0, 0), (0, 2)))
    check_close(array(model(wider))[..., : WORDS + 3], together, TOLERANCE)


def test_training_and_writing_begin_alike():
    """The first context is attended to in both: all log probabilities are the same step by step."""
    model, inputs = shared(), graphs()
    expected, cache, found = array(model(inputs)), model.init_cache(inputs), []
    for place in range(5):
        step, cache = model.decode_step(inputs["target"][:, place : place + 1], cache)
        found.append(array(step))
    found = np.concatenate(found, axis=1)
    allowed = np.isfinite(found)
    np.testing.assert_allclose(found[allowed], expected[allowed], atol=TOLERANCE)
    several, _ = model.decode_step(inputs["target"], model.init_cache(inputs))
    np.testing.assert_allclose(array(several)[allowed], expected[allowed], atol=TOLERANCE)


def test_what_is_never_written():
    """Padding, unknown words, the start, the ids that were named, and entities that are not there."""
    model, inputs = make(forbidden_ids=(0, 1, 2, 12)), graphs()
    found = one_step(model, inputs)
    never = np.zeros((2, WORDS + 3), bool)
    never[:, [0, 1, 2, 12]] = never[1, -1] = True
    np.testing.assert_array_equal(found[:, 0] == -np.inf, never)
    tokens, _ = search(model, inputs, 3, max_length=20)
    assert not np.isin(tokens, [1, 2, 12, WORDS + 2])[1].any()
    assert (np.diff((tokens == 0).astype(int), axis=-1) >= 0).all()  # zeros after the end alone


def test_dropout_in_training_alone():
    """Of attention in graph blocks and in the decoder, of what blocks add, and of embeddings."""
    inputs = graphs()
    calm = make(dropout=0.0)
    for arguments in ({"dropout": 0.5}, {"dropout": 0.0, "embedding_dropout": 0.5}):
        model = make(seed=3, **arguments)
        check_close(model(inputs), calm(inputs))
        np.testing.assert_allclose(*(np.exp(one_step(each, inputs)) for each in (model, calm)), atol=TOLERANCE)
        one, two = (array(model(inputs, training=True)) for _ in range(2))
        assert np.abs(one - two).max() > 1e-3
    check_close(calm(inputs, training=True), calm(inputs), TOLERANCE)


def one_step(model, inputs):
    return array(model.decode_step(inputs["target"][:, :1], model.init_cache(inputs))[0])


def without_target(inputs):
    return {name: ids for name, ids in inputs.items() if name != "target"}


def search(model, inputs, beam_size, **arguments):
    """Tokens and scores, each `(B, K, ...)`."""
    found = Searcher(model, beam_size, **arguments)(without_target(inputs))
    return array(found["tokens"]).astype(int), array(found["scores"])


def test_each_dropout_is_used_and_has_a_seed_of_its_own():
    model, inputs = make(seed=3, dropout=0.5, embedding_dropout=0.5), graphs()
    dropouts = dropout_layers(model)
    assert len({layer.seed for layer in dropouts}) == len(dropouts) == 2 + 2 + 2 * 2
    for layer in dropouts:
        layer.rate = 0.0
    plain = array(model(inputs))
    check_close(model(inputs, training=True), plain, TOLERANCE)
    for layer in dropouts:
        layer.rate = 0.5
        assert np.abs(array(model(inputs, training=True)) - plain).max() > 1e-4, layer.path
        layer.rate = 0.0


def test_dropout_of_the_decoder_differs_from_step_to_step():
    model, inputs = make(seed=3, dropout=0.5), graphs()
    for layer in dropout_layers(model):
        layer.rate = 0.0
    inputs["target"][:] = 5
    model.decoder.cell.set_weights([0 * weight for weight in model.decoder.cell.get_weights()])  # no memory
    same = array(model(inputs, training=True))
    check_close(same[:, 2:], same[:, 1:-1], TOLERANCE)
    model.decoder.dropouts["graph"].rate = 0.5
    dropped = array(model(inputs, training=True))
    assert np.abs(dropped[:, 2:] - dropped[:, 1:-1]).max() > 1e-3


# --------------------------------------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("titles", [True, False])
def test_probabilities_add_up(titles):
    inputs = graphs()
    if not titles:
        inputs.pop("title")
    found = np.exp(array(shared(titles)(inputs)).astype("float64"))
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    assert found[1, :, -1].max() < 1e-30  # an entity that is not there


def test_an_entity_is_read_as_its_type():
    model, inputs = shared(), graphs()
    copies, types = ({**inputs, "target": inputs["target"].copy()} for _ in range(2))
    copies["target"][:, 1] = WORDS + 1
    types["target"][:, 1] = inputs["types"][:, 1]
    np.testing.assert_array_equal(array(model(copies)), array(model(types)))


def test_loss_is_finite_where_probabilities_vanish():
    """By log-sigmoid and log-softmax: the public code adds 1e-6 to probabilities."""
    model, inputs = make(), graphs()
    model.output_layer.switch.bias.assign([200.0])
    model.output_layer.switch.kernel.assign(0 * array(model.output_layer.switch.kernel))
    found = array(model(inputs))
    assert found[0, :, WORDS:].max() < -199 and np.isfinite(found).all()


def test_inverse_relations_have_embeddings_of_their_own():
    """An unknown relation and its inverse share one."""
    model, inputs = make(), graphs()
    plain = array(model(inputs))
    table = model.encoder.relation_embedding.embeddings
    for row, changes in ((3, (True, False)), (5, (True, False)), (1, (False, True)), (0, (False, False))):
        before = array(table)
        table.assign(before + (np.arange(len(before)) == row)[:, None])
        different = np.abs(array(model(inputs)) - plain).max((1, 2)) > 1e-4
        assert tuple(different) == changes, row
        table.assign(before)


def test_gradients_reach_every_weight():
    model, inputs = make(), graphs(8)
    labels = np.roll(inputs["target"], -1, axis=1)
    with tf.GradientTape() as tape:
        loss = LOSS(labels, model(inputs, training=True))
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    still = [
        variable.path
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
        if gradient is None or not np.abs(array(tf.convert_to_tensor(gradient))).max() > 0
    ]
    assert still == []


# ------------------------------------------------------------------------------------------------------------ heads


def test_heads_of_the_encoder_and_of_the_decoder():
    model = shared()
    found = select_heads(model.trainable_variables, roles=("encoder",))
    assert len(found) == 2 * 3 and all("/block_" in kernel.variable.path for kernel in found)
    found = select_heads(model.trainable_variables, roles=("cross",))
    assert {kernel.layer.split("/")[-1] for kernel in found} == {"cross_graph", "cross_title"}


def test_repulsion_moves_the_heads_of_the_encoder():
    inputs = graphs()
    labels = np.roll(inputs["target"], -1, axis=1)
    moved = []
    for weight in (0.0, 100.0):
        model = make(dropout=0.0)
        inner = keras.optimizers.SGD(0.1)
        model.compile(Repulsive(inner, repulsive_weight=weight, roles=("encoder",)), LOSS, run_eagerly=True)
        model.train_on_batch(inputs, labels)
        moved.append({variable.path.split("/", 1)[1]: array(variable) for variable in model.trainable_variables})
    different = {name for name in moved[0] if np.abs(moved[0][name] - moved[1][name]).max() > 1e-6}
    assert different and all(
        "block_" in name and name.split("/")[-2] in ("query", "key", "value") for name in different
    )


@pytest.mark.parametrize("regularizer", [CosineSimilarity(0.5), Disagreement("outputs"), Disagreement("positions")])
def test_head_regularizers(regularizer):
    """Of the graph blocks alone; padded vertices do not count."""
    attention = layers.GraphAttention(3, 4, head_regularizer=regularizer)
    model, inputs = make(attention=attention, dropout=0.0), graphs()
    model(inputs, training=True)
    assert len(model.losses) == (2 * 3 if regularizer.of == "kernels" else 2)
    found = float(sum(model.losses))
    model(padded(inputs, triples=2), training=True)
    assert float(sum(model.losses)) == pytest.approx(found, rel=1e-5)


def test_weights_of_all_attentions():
    model, inputs = shared(), graphs()
    found, out = model(inputs, return_intermediates=True)
    check_close(found, model(inputs), TOLERANCE)
    shapes = {name: array(tensors["weights"]).shape for name, tensors in out.items()}
    vertices = 3 + 1 + 2 * 2
    graph = {f"block_{number}/attention": (2, 3, vertices, vertices) for number in range(2)}
    assert shapes == graph | {"cross_graph": (2, 3, 5, vertices), "cross_title": (2, 3, 5, 4)}
    np.testing.assert_allclose(array(out["cross_title"]["weights"])[1].sum(-1), 1, atol=1e-6)
    assert not array(out["cross_title"]["weights"])[1, ..., 2:].any()


# -------------------------------------------------------------------------------------------------- files and search

UNUSUAL = dict(
    num_layers=1,
    num_encoder_layers=1,
    attention=layers.TalkingHeadsAttention(2, 3),
    num_heads=2,
    dropout=0.3,
    embedding_dropout=0.2,
    forbidden_ids=(0, 1, 2, 10),
    seed=5,
    name="unusual",
)


def test_config_round_trip():
    model = make(**UNUSUAL)
    config = json.loads(json.dumps(model.get_config()))
    assert json.dumps(GraphWriter.from_config(config).get_config()) == json.dumps(model.get_config())
    for name, value in UNUSUAL.items():
        if not isinstance(value, keras.layers.Layer):
            assert config[name] == (list(value) if isinstance(value, tuple) else value), name


@pytest.mark.parametrize("arguments", [{}, UNUSUAL], ids=["plain", "unusual"])
def test_file_round_trip(arguments, tmp_path):
    model, inputs = make(**arguments), without_target(graphs())
    searcher = Searcher(model, 2, max_length=4)
    expected = searcher(inputs)
    searcher.save(tmp_path / "searcher.keras")
    found = keras.saving.load_model(tmp_path / "searcher.keras")(inputs)
    np.testing.assert_array_equal(array(found["tokens"]), array(expected["tokens"]))
    np.testing.assert_array_equal(array(found["scores"]), array(expected["scores"]))


def score_by_hand(model, inputs, tokens, alpha):
    """The score of a text that was written: its log probability among what may be written."""
    total, last, cache = 0.0, 2, model.init_cache(inputs)
    for token in tokens:
        logits, cache = model.decode_step(np.array([[last]]), cache)
        total += float(keras.ops.log_softmax(logits)[0, 0, token])
        last = token
    return total / ((5 + len(tokens)) / 6) ** alpha


@pytest.mark.parametrize("beam_size", [1, 3])
def test_search(beam_size):
    """Scores are those of the texts; wider beams find no worse ones; a graph does not depend on its batch."""
    model, inputs = shared(), graphs()
    found, scores = search(model, inputs, beam_size, alpha=1.0, max_length=6)
    for item in range(2):
        alone = rows(inputs, item)
        single, _ = search(model, alone, beam_size, alpha=1.0, max_length=6)
        np.testing.assert_array_equal(single[0], found[item])
        for tokens, score in zip(found[item], scores[item], strict=True):
            assert score == pytest.approx(score_by_hand(model, alone, tokens[tokens != 0], 1.0), abs=1e-4)


def test_a_wide_beam_finds_the_best_text():
    """Of all texts that end after a token or two."""
    model, inputs = shared(), rows(graphs(), 1)
    scores = {tuple(text): score_by_hand(model, inputs, text, 0.0)
              for text in [[3], *([token, 3] for token in range(4, WORDS + 2))]}  # fmt: skip
    found, _ = search(model, inputs, 7, alpha=0.0, max_length=3)
    ended = next(row for row in found[0] if 3 in row)  # a longer one that was cut off may score more
    assert tuple(ended[ended != 0]) == max(scores, key=scores.get)


# ------------------------------------------------------------------------------------------------------ compilation


def test_compiled_by_xla():
    """Loss, gradients and search."""
    model, inputs = make(dropout=0.0, **SMALL), graphs()
    labels = np.roll(inputs["target"], -1, axis=1)
    searcher = Searcher(model, 2, max_length=5)

    def run():
        with tf.GradientTape() as tape:
            loss = LOSS(labels, model(inputs, training=True))
        variables = [variable.value for variable in model.trainable_variables]
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        return loss, gradients, searcher(without_target(inputs))

    found, expected = tf.function(run, jit_compile=True)(), run()
    for got, want in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        check_close(got, want, 2e-5)


def test_lengths_that_a_graph_does_not_know():
    model, inputs = shared(), graphs()
    signature = {name: tf.TensorSpec([None] * (ids.ndim - 1) + [3 if name == "triples" else None], "int32")
                 for name, ids in inputs.items()}  # fmt: skip
    found = tf.function(lambda inputs: model(inputs), [signature])(inputs)
    check_close(found, model(inputs), TOLERANCE)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(dtype):
    model, inputs = make(), graphs()
    mixed = make(dtype=dtype)
    found = mixed(inputs)
    assert found.dtype == "float32"
    np.testing.assert_allclose(
        np.exp(array(found)), np.exp(array(model(inputs))), atol=0.02 if dtype == "mixed_float16" else 0.1
    )


def test_fit_learns_to_copy():
    """The text of a graph names the head of its triple, then the tail: their words differ from graph to graph."""
    rng = np.random.default_rng(0)
    entities = rng.integers(2, 9, (96, 2, 2)).astype("int32")
    label = np.array([WORDS, 5, WORDS + 1, 3])
    inputs = {
        "entities": entities,
        "types": np.full((96, 2), 10),
        "triples": np.tile([[[0, 3, 1]]], (96, 1, 1)),
        "target": np.tile([2, *label[:-1]], (96, 1)),
    }
    model = GraphWriter(WORDS, 9, 2, **SIZES | SMALL)
    model.compile(keras.optimizers.Adam(0.02), LOSS, jit_compile=False)
    for _ in range(80):
        model.train_on_batch(inputs, np.tile(label, (96, 1)))
    found = search(model, inputs, 2, max_length=6)[0][:, 0, :4]
    assert (found == label).all(axis=1).mean() > 0.9
