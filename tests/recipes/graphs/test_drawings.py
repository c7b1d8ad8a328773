"""Attention on a graph and copies: numbers, pictures and their example for the page."""

import itertools

import numpy as np
import pytest

from keras_headattn.analysis import write_attention_page
from keras_headattn.models import GraphWriter
from keras_headattn.ops import graph_adjacency
from recipes.graphs.corpus import Graph
from recipes.graphs.drawings import draw_copies, draw_graph_attention
from recipes.graphs.layout import boxed, place_boxes
from recipes.graphs.maps import GraphMaps, graph_maps
from recipes.graphs.vocabulary import GraphVocabulary
from tests.refusals import refused

GRAPH = Graph(
    ("Anna Berg", "Oslo", "a small town in the north of Norway", "WWW MMM & Æsir", "$5 & more"),
    ("person", "town", "town", "town", "sum"),
    ((0, "lives in", 1), (0, "was born in", 2), (1, "twin town of", 3), (1, "near", 1), (0, "works in", 1)),
    texts=((0, "lives", "in", 1, "."),),
    title="Anna today",
)


@pytest.fixture(scope="module")
def written():
    """A vocabulary with titles, a model, and its maps of the graph."""
    words = ["lives", "in", "."]
    names = ["anna", "berg", "oslo", "small", "town"]
    relations = ["lives in", "near", "twin town of"]
    vocabulary = GraphVocabulary(words, ["person", "town"], names, ["anna"], relations)
    model = GraphWriter(
        vocabulary.vocabulary_size,
        vocabulary.entity_vocabulary_size,
        vocabulary.num_relations,
        vocabulary.title_vocabulary_size,
        num_layers=2,
        hidden_dim=8,
        num_encoder_layers=1,
        seed=0,
    )
    return vocabulary, model, graph_maps(model, vocabulary, GRAPH)


def test_maps_are_those_of_the_vertices_and_of_the_tokens(written):
    vocabulary, model, maps = written
    vertices = 5 + 1 + 2 * 5
    shapes = {name: x.shape for name, x in maps.weights.items()}
    blocks = {f"block_{number}/attention": (4, vertices, vertices) for number in range(2)}
    assert shapes == {**blocks, "cross_graph": (4, 5, vertices), "cross_title": (4, 5, 2)}
    adjacency, _ = graph_adjacency(vocabulary_triples(vocabulary), np.ones((1, 5), bool))
    assert ((maps.weights["block_0/attention"] > 0) == np.array(adjacency)[0]).all()
    for weights in maps.weights.values():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert maps.written == ["Anna Berg", "lives", "in", "Oslo", "."] and maps.title == ["anna", "<unk>"]
    assert len(maps.vertices) == vertices and maps.vertices[5] == "<global>"
    assert maps.vertices[6:8] == ["Anna Berg → lives in → Oslo", f"Anna Berg → was born in → {GRAPH.entities[2]}"]
    assert maps.vertices[11] == "Oslo ← lives in ← Anna Berg"
    # The same numbers as a search sees after the same tokens.
    encoded = {name: np.array([ids]) for name, ids in vocabulary.encode(GRAPH).items() if name != "entities"}
    names = vocabulary.encode(GRAPH)["entities"]
    encoded["entities"] = np.array([[[*name, *[0] * (max(map(len, names)) - len(name))] for name in names]])
    cache, last = model.init_cache(encoded), 2
    for number, token in enumerate(vocabulary.encode_text(maps.tokens)[:-1]):
        found, cache = model.decode_step(np.array([[last]]), cache)
        np.testing.assert_allclose(np.exp(np.array(found)[0, 0, -5:]), maps.copies[number], rtol=1e-4)
        last = token


def vocabulary_triples(vocabulary):
    return np.array([vocabulary.encode(GRAPH)["triples"]])


def test_a_graph_without_triples_and_wrong_texts(written):
    vocabulary, model, _ = written
    alone = Graph(("Oslo",), ("town",), ())
    maps = graph_maps(model, vocabulary, alone, iter(["in", 0]))
    assert maps.weights["block_1/attention"].shape == (4, 2, 2) and maps.copies.shape == (2, 1)
    assert maps.title == ["<unk>"]
    np.testing.assert_allclose(maps.weights["cross_graph"].sum(-1), 1, atol=1e-5)
    assert len(draw_graph_attention(maps).axes[0].texts) == 2
    for tokens in ((), (1,), (-1, "in")):
        with refused("tokens", tokens):
            graph_maps(model, vocabulary, alone, tokens)
    with refused("tokens", ()):
        graph_maps(model, vocabulary, alone)


def test_boxes_never_cover_each_other():
    rng = np.random.default_rng(0)
    for count, joined in ((1, 0), (2, 1), (9, 12), (40, 30)):
        sizes = rng.uniform((0.4, 0.3), (1.5, 0.6), (count, 2))
        places = place_boxes(sizes, rng.integers(0, count, (joined, 2)).tolist())
        assert np.isfinite(places).all() and np.allclose((places - sizes / 2).min(0), 0)
        for one, other in itertools.combinations(range(count), 2):
            assert (np.abs(places[one] - places[other]) >= (sizes[one] + sizes[other]) / 2).any()
    assert place_boxes(sizes, [(0, 1)]).tolist() == place_boxes(sizes, [(0, 1)]).tolist()


def test_texts_of_the_graph_are_in_their_boxes(written):
    """As drawn, no text is wider than its box, and each arrow's colour and width are those of its weight."""
    *_, maps = written
    figure = draw_graph_attention(maps, block=0, heads=[2])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_title() == "head 3" and figure.get_suptitle() == "What vertices attend to in block 1 of 2"
    assert figure.axes[-1].get_ylabel() == "weight"
    boxes = [patch for patch in axes.patches if hasattr(patch, "get_boxstyle")]
    texts = [text.get_text() for text in axes.texts]
    assert texts == [boxed(text)[0] for text in (*GRAPH.entities, *(name for _, name, _ in GRAPH.triples))] + ["global"]
    for text, box in zip(axes.texts, boxes, strict=True):
        inner, outer = text.get_window_extent(), box.get_window_extent()
        assert outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1, text
    weights = maps.weights["block_0/attention"][2]
    off = weights[~np.eye(len(weights), dtype=bool)]
    arrows = [patch for patch in axes.patches if patch not in boxes]
    largest = max(weights.max(), 1e-9)
    expected = sorted(0.3 + 2.2 * weight / largest for weight in off if weight / largest > 0.02)
    np.testing.assert_allclose(sorted(arrow.get_linewidth() for arrow in arrows), expected, rtol=1e-5)
    assert len(axes.lines) == (off > 0).sum()


def test_heads_have_one_scale_and_errors(written):
    *_, maps = written
    figure = draw_graph_attention(maps, title="All heads")
    assert [axes.get_title() for axes in figure.axes[:4]] == [f"head {number}" for number in range(1, 5)]
    assert figure.get_suptitle() == "All heads" and len(figure.axes) == 5
    for arguments in (dict(block=2), dict(block=-3), dict(heads=[]), dict(heads=[4])):
        with refused(*next(iter(arguments.items()))):
            draw_graph_attention(maps, **arguments)


def test_negative_weights_are_drawn():
    graph = Graph(("a", "b"), ("x", "x"), ((0, "r", 1),))
    weights = {"block_0/attention": np.full((1, 5, 5), -0.25)}
    figure = draw_graph_attention(GraphMaps(graph, (0,), weights, np.ones((1, 2)), []))
    assert figure.axes[-1].get_ylim() == (-0.25, 0.25)


def test_copies_stand_in_the_colour_of_their_entity():
    graph = Graph(tuple(f"entity {number}" for number in range(12)), ("x",) * 12, ())
    copies = np.zeros((4, 12))
    copies[0, 11], copies[1, 3], copies[3, 0] = 0.9, 0.4, 0.02
    figure = draw_copies(GraphMaps(graph, (11, "here", "and", 0), {}, copies, []))
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts[:12]] == [f"{n} entity {n - 1}" for n in range(1, 13)]
    found = {text.get_text(): text for text in texts[12:]}
    assert [*found] == ["entity 11", "12: 0.90", "here", "4: 0.40", "and", "entity 0", "1: 0.02"]
    faces = {name: text.get_bbox_patch() and text.get_bbox_patch().get_facecolor() for name, text in found.items()}
    chips = [text.get_bbox_patch().get_facecolor()[:3] for text in texts[:12]]
    assert faces["entity 11"] == (*chips[11], 0.75 * 0.9) and faces["here"] == (*chips[3], 0.75 * 0.4)
    assert faces["and"][3] == 0
    assert found["entity 0"].get_bbox_patch().get_edgecolor()[:3] == chips[0]
    figure.draw_without_rendering()
    for one, other in itertools.combinations(texts, 2):
        assert not one.get_window_extent().overlaps(other.get_window_extent()), (one, other)


def test_the_example_fits_the_page(written, tmp_path):
    *_, maps = written
    example = maps.example("Anna")
    assert [*example["maps"]] == ["graph block 1", "graph block 2", "text to graph", "text to title", "copied from"]
    assert example["answer"] == "Anna Berg lives in Oslo ." and example["name"] == "Anna"
    assert example["tokens"]["copied from"] == [maps.written, list(GRAPH.entities)]
    write_attention_page(tmp_path / "page.html", [example])
