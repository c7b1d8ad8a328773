"""Vocabularies of graphs, and batches of them."""

import numpy as np
import pytest

from recipes.graphs.batches import GraphBatches, graph_batches, num_vertices
from recipes.graphs.corpus import Graph, GraphCorpus
from recipes.graphs.files import read_graphs
from recipes.graphs.vocabulary import GraphVocabulary
from tests.refusals import refused


def graph(*text, entities=("Anna B", "Oslo"), types=("person", "town"), triples=((0, "home", 1),), **more):
    return Graph(entities, types, triples, (text,), **more)


CORPUS = GraphCorpus([graph(0, "is", "in", 1), graph(1, "is", "in", "is", title="Of is Of")], "demo")


# ------------------------------------------------------------------------------------------------------- vocabulary


def test_ids_by_hand():
    vocabulary = GraphVocabulary.learn(CORPUS, min_count=2)
    assert vocabulary.tokens == ["<pad>", "<unk>", "<start>", "<end>", "<person>", "<town>", "is", "in"]
    assert vocabulary.entity_words == ["anna", "b", "oslo"]  # any count; none stands in for padding or unknown ones
    assert vocabulary.title_words == ["of"] and vocabulary.relations == ["home"]
    assert vocabulary.forbidden_ids == (0, 1, 2, 4, 5)
    sizes = vocabulary.vocabulary_size, vocabulary.entity_vocabulary_size, vocabulary.title_vocabulary_size
    assert sizes == (8, 5, 3) and vocabulary.num_relations == 1
    new = graph("is", "never", 1, entities=("B C", "Oslo"), types=("person", "lake"), title="of towns",
                triples=((1, "home", 0), (0, "near", 1)))  # fmt: skip
    assert vocabulary.encode(new) == {
        "entities": [[3, 1], [4]],
        "types": [4, 1],
        "triples": [[1, 3, 0], [0, 1, 1]],
        "title": [2, 1],
    }
    assert vocabulary.encode_text(new.texts[0]) == [6, 1, 9, 3]
    assert GraphVocabulary.learn(CORPUS, 2, max_words=1).encode(new)["entities"] == [[1], [3]]


def test_texts_and_back():
    vocabulary = GraphVocabulary.learn(CORPUS, min_count=2)
    for text in (CORPUS.graphs[0].texts[0], CORPUS.graphs[1].texts[0]):
        assert vocabulary.decode([*vocabulary.encode_text(text), 6, 0]) == list(text)
    assert vocabulary.decode(np.array([8, 6, 0, 6])) == [0, "is"]


def test_words_count_five_times_by_default():
    texts = [["often"] * 5, ["seldom"] * 4]
    corpus = GraphCorpus([graph(*words, title=words[0]) for words in texts], "demo")
    assert GraphVocabulary.learn(corpus).words == ["often"]
    with refused("occur 9 times", "none in demo"):
        GraphVocabulary.learn(corpus, min_count=9)


def test_without_titles():
    vocabulary = GraphVocabulary.learn(CORPUS.take([0]), 1)
    assert vocabulary.title_vocabulary_size is None and "title" not in vocabulary.encode(CORPUS.graphs[1])


@pytest.mark.parametrize("split, words", [("signs", ["a", "-", "b", "c"]), ("spaces", ["a-b", "c"])])
def test_how_names_become_words(split, words):
    corpus = GraphCorpus([graph("x", entities=("A-b", "C"))], "demo", split)
    assert GraphVocabulary.learn(corpus, 1).entity_words == sorted(words)


def test_file_round_trip(tmp_path):
    vocabulary = GraphVocabulary.learn(GraphCorpus([graph("Ä", 0, title="ö")], "demo", "spaces"), 1)
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = GraphVocabulary.load(tmp_path / "vocabulary.json")
    assert vars(loaded) == vars(vocabulary)


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"words": 5}', "[" * 100_000])
def test_a_file_that_is_no_vocabulary(tmp_path, text):
    (tmp_path / "vocabulary.json").write_text(text)
    with pytest.raises(ValueError, match="vocabulary.json"):
        GraphVocabulary.load(tmp_path / "vocabulary.json")


def test_unknown_words_of_the_real_agenda(shared_data):
    """Rows 1 to 900 of its validation set as a training set."""
    train = read_graphs(shared_data / "agenda" / "preprocessed.val.tsv").take(range(900))
    test = read_graphs(shared_data / "agenda" / "preprocessed.test.tsv")
    for min_count, share in ((5, 0.081), (2, 0.046)):
        examples = GraphVocabulary.learn(train, min_count).examples(test)
        ids = np.concatenate([example["target"][:-1] for example in examples])
        assert (ids == 1).mean() == pytest.approx(share, abs=0.0006)
    names = [word for example in examples for name in example["entities"] for word in name]
    assert np.equal(names, 1).mean() == pytest.approx(0.146, abs=0.0006)


# ---------------------------------------------------------------------------------------------------------- batches


def examples(number=20, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for length in range(1, number + 1):
        entities, triples = rng.integers(1, 5), rng.integers(0, 4)
        made.append({
            "entities": [rng.integers(2, 9, rng.integers(1, 4)).tolist() for _ in range(entities)],
            "types": rng.integers(4, 6, entities).tolist(),
            "triples": [[0, 3, int(entities - 1)]] * triples,
            "title": rng.integers(2, 9, rng.integers(0, 3)).tolist(),
            "target": [100 + length] * (length - 1) + [3],
        })  # fmt: skip
    return made


def test_each_example_comes_once_with_its_graph():
    made = examples()
    batches = GraphBatches(made, tokens_per_batch=40, num_buckets=3, num_graph_buckets=2, seed=1)
    assert batches.num_examples == 20 and len(batches.shapes) <= 6
    found = {}
    for number in range(len(batches)):
        inputs, labels, weights = batches[number]
        assert labels.size <= 40 and weights.mean() == pytest.approx(1)
        for row in np.flatnonzero(labels.any(axis=1)):
            found[(labels[row] != 0).sum()] = {name: ids[row] for name, ids in inputs.items()}
            np.testing.assert_array_equal(weights[row] > 0, labels[row] > 0)
    assert sorted(found) == list(range(1, 21))
    for example in made:
        row = found[len(example["target"])]
        assert [[i for i in name if i] for name in row["entities"].tolist() if any(name)] == example["entities"]
        assert [t for t in row["triples"].tolist() if t[1]] == example["triples"]
        assert row["types"][: len(example["types"])].tolist() == example["types"] and row["target"][0] == 2
        assert row["title"][: len(example["title"])].tolist() == example["title"]


def test_a_bucket_has_one_shape_and_holds_no_more_than_it_needs():
    batches = GraphBatches(examples(), tokens_per_batch=40, num_buckets=2)
    shapes = {tuple(ids.shape for ids in batches[number][0].values()) for number in range(len(batches))}
    assert len(shapes) == len(batches.shapes)
    assert {size["target"] for size in batches.sizes} == {shape[1] for shape in batches.shapes}
    dataset = batches.dataset()
    assert len(list(dataset)) == len(batches)
    assert dataset.element_spec[0]["triples"].shape[2] == 3


def test_a_text_of_the_length_of_a_bucket_is_in_it():
    """The public code puts a text of exactly 100 words among the longest."""
    made = [examples(20)[length - 1] for length in (9, 10, 11, 20)]
    batches = GraphBatches(made, tokens_per_batch=40, num_buckets=2, num_graph_buckets=1)
    assert [size["target"] for size in batches.sizes] == [11, 20]
    assert batches._bucket.tolist() == [0, 0, 0, 1]


def test_order_is_of_seed_and_epoch():
    def labels(batches):
        return [batches[number][1].tolist() for number in range(len(batches))]

    one, two, other = (GraphBatches(examples(), 40, seed=seed) for seed in (1, 1, 2))
    assert labels(one) == labels(two) != labels(other)
    one.epoch = 3
    assert labels(one) != labels(two)
    two.epoch = 3
    assert labels(one) == labels(two)
    calm = GraphBatches(examples(), 40, shuffle=False)
    before = labels(calm)
    calm.epoch = 5
    assert labels(calm) == before


def test_rows_of_replicas_and_too_few_tokens():
    assert all(rows % 4 == 0 for rows, _ in GraphBatches(examples(), 200, num_replicas=4).shapes)
    with refused("tokens_per_batch", "0 x 20"):
        GraphBatches(examples(), 19)


def test_batches_to_write():
    """Each graph once, smallest first, in few shapes."""
    made = examples()
    batches = graph_batches(made, batch_size=3, num_buckets=2)
    order = np.concatenate([indices for indices, _ in batches])
    assert sorted(order) == list(range(20))
    sizes = [num_vertices(made[index]) for index in order]
    assert sizes == sorted(sizes)
    assert len({inputs["triples"].shape for _, inputs in batches}) == 2
    for indices, inputs in batches:
        assert "target" not in inputs and len(inputs["entities"]) == 3
        for row, index in enumerate(indices):
            assert inputs["entities"][row].any(axis=1).sum() == len(made[index]["entities"])
        assert not inputs["entities"][len(indices) :].any()


def test_graphs_without_triples():
    made = [{"entities": [[4]], "types": [4], "triples": [], "target": [5, 3]}]
    [(_, inputs)] = graph_batches(made)
    assert inputs["triples"].shape == (16, 1, 3)
    assert GraphBatches(made, tokens_per_batch=2)[0][0]["triples"].shape == (1, 1, 3)
