"""The public code of GraphWriter: its graph encoder, its gradients, its decoder without its faults."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import GraphAttention
from keras_headattn.models import GraphWriter
from keras_headattn.ops import graph_adjacency
from tests.models.graphs import assign, block_weights, writer_weights
from tests.models.small import array, check_close

DOUBLE, FLOAT32 = 1e-12, 5e-6
SIZES = dict(num_layers=2, hidden_dim=20, intermediate_dim=80, num_heads=4)
TRIPLES = np.zeros((2, 3, 3), "int32")
TRIPLES[0] = [[0, 4, 2], [2, 3, 3], [0, 5, 0]]
TRIPLES[1, 0] = [1, 5, 0]


def places_of_theirs(num_entities, num_triples):
    """Where the vertices of the public code are here: entities, the global one, relation and inverse by turns."""
    relations = [5 + number + 3 * inverse for number in range(num_triples) for inverse in (0, 1)]
    return [*range(num_entities), 4, *relations]


@pytest.mark.parametrize("detach", [False, True])
def test_gradients_of_the_graph_encoder(golden, detach):
    data = golden("graphwriter_block.npz")
    attention = GraphAttention(4, 5, detach_neighbours=detach)
    model = GraphWriter(5, 5, 3, attention=attention, **SIZES | {"dropout": 0.0}, dtype="float64")
    model.build()
    encoder = model.encoder
    for number, block in enumerate(encoder.blocks):
        assign(block, block_weights(data, number))
    encoder.relation_embedding.embeddings.assign(data["w.ge.renc.weight"])
    entities, counts = tf.constant(data["entities"].astype("float64")), data["num_entities"]
    mask = np.arange(4) < counts[:, None]
    with tf.GradientTape() as tape:
        tape.watch(entities)
        vertices, _ = encoder._encode_graph(tf.where(mask[..., None], entities, 0), mask, TRIPLES, False)
        loss = 0.0
        for item, triples in enumerate((3, 1)):
            own = tf.gather(vertices[item], places_of_theirs(counts[item], triples))
            check_close(own, data["vertices_f64"][item][: len(own)], DOUBLE)
            check_close(own[counts[item]], data["glob_f64"][item], DOUBLE)
            loss += tf.reduce_sum(own * data["cotangent"][item][: len(own)])
    variables = {variable.path.split("encoder/")[1]: variable.value for variable in encoder.trainable_variables}
    of_entities, gradients = tape.gradient(loss, [entities, variables], unconnected_gradients="zero")
    kind = "detached" if detach else "full"
    check_close(of_entities, data[f"grad.{kind}.entities_f64"], DOUBLE)
    check_close(tf.convert_to_tensor(gradients["relations/embeddings"]), data[f"grad.{kind}.renc.weight_f64"], DOUBLE)
    names = {f"attention/{side}/kernel": f"attn.{side}_layer.weight" for side in ("query", "key", "value")}
    names |= {"norm/gamma": "ln_1.weight", "norm/beta": "ln_1.bias"}
    names |= {"inner/kernel": "l1.weight", "activation/alpha": "act.weight"}
    for number in range(2):
        for ours, theirs in names.items():
            found = array(gradients[f"block_{number}/{ours}"])
            found = found.reshape(20, 20).T if "attention" in ours else found.T
            check_close(found, data[f"grad.{kind}.gat.{number}.{theirs}_f64"], DOUBLE)


def step_inputs(data):
    """Padding is 0 here, and a copied entity has its own id in place of its type's."""
    entities = np.zeros((2, 4, 4), "int32")
    phrases = np.where(np.arange(4) < data["phrase_lengths"][:, None], data["phrase_ids"], 0)
    entities[0], entities[1, :2] = phrases[:4], phrases[4:]
    real = np.arange(7) < data["title_lengths"][:, None]
    target = data["target"]
    return {
        "entities": entities,
        "types": data["entity_type_ids"].astype("int32"),
        "triples": TRIPLES,
        "title": np.where(real, data["title_ids"], 0).astype("int32"),
        "target": target.astype("int32"),
    }


def step_model(data, dtype):
    model = GraphWriter(26, 19, 3, title_vocabulary_size=14, forbidden_ids=(0, 1), dtype=dtype, **SIZES)
    model.build()
    return assign(model, writer_weights(data))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_log_probabilities_without_the_faults(golden, dtype):
    data = golden("graphwriter_step.npz")
    tolerance = DOUBLE if dtype == "float64" else FLOAT32
    model, inputs = step_model(data, dtype), step_inputs(data)
    encoded = model.encoder(inputs)
    suffix = "_f64" if dtype == "float64" else ""
    real = inputs["entities"].any(-1)
    check_close(array(encoded["entities"])[real], data[f"entity_states{suffix}"][real], tolerance)
    real = inputs["title"] != 0
    check_close(array(encoded["memories"]["title"])[real], data[f"title_states{suffix}"][real], tolerance)
    # The public code adds 1e-6 to probabilities, also to those of entities that are not there.
    found = np.log(np.exp(array(model(inputs)).astype("float64")) + 1e-6)
    check_close(found, data["log_probs_without_faults_npf64"], tolerance)


def test_adjacency(golden):
    data = golden("graphwriter_block.npz")
    mask = np.arange(4) < data["num_entities"][:, None]
    adjacency = array(graph_adjacency(TRIPLES, mask)[0])
    for item, triples in enumerate((3, 1)):
        places = places_of_theirs(data["num_entities"][item], triples)
        np.testing.assert_array_equal(adjacency[item][np.ix_(places, places)], data[f"graph{item}.adjacency"] != 0)
        assert adjacency[item].sum() == data[f"graph{item}.adjacency"].sum()
