"""Training of a writer of the texts of graphs, its scores and its SavedModel."""

import functools
import json
import types

import keras

from keras_headattn._files import read_json, read_lines
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.training import EpochScore, HeadDistances, HeadStatistics, Model
from recipes.engine.exporting import smoke_test
from recipes.engine.generation import DECODING, write_texts
from recipes.engine.modelling import fitting_batch, make_optimizer
from recipes.engine.progress import progress_bar
from recipes.graphs.batches import GraphBatches
from recipes.graphs.corpus import SPLITS, graph_tensors
from recipes.graphs.data import by_category, load_corpora, load_tests
from recipes.graphs.evaluation import as_object, as_tokens, as_triples, bleu, check_metrics, score_graphs, score_lines
from recipes.graphs.exports import export_graph_to_text
from recipes.graphs.files import graph_from_json
from recipes.graphs.graph_to_text import GraphToText
from recipes.graphs.modelling import make_writer
from recipes.graphs.vocabulary import GraphVocabulary

OPTIMIZERS = {"sgd": functools.partial(keras.optimizers.SGD, momentum=0.9), "adam": keras.optimizers.Adam}
VOCABULARY, CATEGORIES = "vocabulary.json", "categories.json"
ANY_SIZE = 10**6  # entities of a graph that is scored
SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
result = [[text.decode() for text in found["texts"].numpy()], found["scores"].numpy().tolist()]
"""


def train(config, session):
    """Trains a writer, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        graphs = run.read(lambda: load_corpora(config))
        vocabulary = run.once(lambda: make_vocabulary(run, config, graphs.train))
        run.keep(CATEGORIES, json.dumps(sorted({graph.category for graph in graphs.train.graphs})))
        if run.is_unfinished():
            fit(run, graphs, vocabulary)
        run.report(lambda model: score(run, config, model, graphs.tests))
        run.export(lambda model, folder: write(run, config, model, folder))
        run.close()


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    check_metrics(config.metrics)
    names = ("vocabulary_size", "entity_vocabulary_size", "num_relations", "title_vocabulary_size")
    make_writer(config, types.SimpleNamespace(**dict.fromkeys(names, 8), forbidden_ids=()))
    sgd_or_adam(config)


def sgd_or_adam(config):
    """Returns the optimizer."""
    return make_optimizer(config, OPTIMIZERS[config.optimizer], learning_rate=config.learning_rate)


def make_vocabulary(run, config, train):
    """Returns the vocabulary of a run, which is learned from the training set and kept in the run's folder."""
    path = run.folder / VOCABULARY
    if not path.exists():
        arguments = {"min_count": min(5, 1 + len(train.graphs) // 10_000)}
        arguments |= {k: v for k, v in config.vocabulary_arguments.items() if v is not None}
        GraphVocabulary.learn(train, **arguments).save(path)
    return GraphVocabulary.load(path)


def fit(run, graphs, vocabulary):
    """Trains on batches of graphs and texts of like sizes."""
    config = run.config
    train, validation = (encode(part, vocabulary, config.max_length) for part in (graphs.train, graphs.validation))
    lengths = [len(example["target"]) for example in train]
    longest = max(len(example["target"]) for example in (*train, *validation))
    fitting = fitting_batch(sum(lengths), 3_520, run.num_replicas * max(400, longest))
    common = dict(tokens_per_batch=config.tokens_per_batch or fitting, num_replicas=run.num_replicas)
    common |= config.bucket_arguments
    batches = GraphBatches(train, seed=config.seed, **common)
    held_out = GraphBatches(validation, shuffle=False, **common)
    report_long_names(graphs.train, vocabulary.max_words)
    print(
        f"{vocabulary.vocabulary_size:,} words of texts, {vocabulary.entity_vocabulary_size:,} of entities, "
        f"{vocabulary.title_vocabulary_size or 0:,} of titles, {vocabulary.num_relations} relations"
    )

    def trainer(model):
        shapes = {"entities": (None, None), "types": (None,), "triples": (None, 3), "target": (None,)}
        shapes |= {"title": (None,)} if vocabulary.title_words else {}
        inputs = {name: keras.Input(shape, dtype="int32", name=name) for name, shape in shapes.items()}
        return Model(inputs, model(inputs), name="trainer")

    def reports(model):
        distances = HeadDistances(roles=("encoder",))
        return [distances] if distances.applies_to(model) else []

    run.fit(
        batches,
        held_out,
        lambda: run.load_pruned() or make_writer(config, vocabulary),
        trainer=trainer,
        optimizer=lambda model: sgd_or_adam(config),
        loss=LabelSmoothedCrossentropy(0.0),
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        throughput=(lambda: batches.num_tokens["target"], "tokens_per_second"),
        reports=reports,
        scores=lambda model: validation_scores(run, model, graphs.validation),
        shown=lambda model: [HeadStatistics(run.log_dir)],
    )


def encode(corpus, vocabulary, max_length):
    """Returns the examples of a corpus whose texts have at most `max_length` tokens, and prints how many have more."""
    examples = vocabulary.examples(corpus)
    kept = [example for example in examples if len(example["target"]) <= max_length]
    longer = f"{len(examples) - len(kept):,} of {len(examples):,} texts have more tokens than --max-length"
    if not kept:
        raise ValueError(f"{longer}. Received: max_length={max_length} for {corpus.name}")
    if len(kept) < len(examples):
        print(f"{corpus.name}: {longer} {max_length} and are left out")
    return kept


def report_long_names(train, max_words):
    """Prints how many names of training are read in part, because of `max_words`."""
    lengths = [len(SPLITS[train.split_at](name)) for graph in train.graphs for name in graph.entities]
    if max_words and (longer := sum(length > max_words for length in lengths)):
        print(f"{train.name}: of {longer:,} of {len(lengths):,} names the first {max_words} words are read (max_words)")


def validation_scores(run, model, validation):
    """Returns the callback that scores the texts of some graphs of the validation set, if the settings ask for it."""
    config = run.config
    if not config.validation_graphs:
        return []
    corpus = validation.sample(config.validation_graphs)
    references = [[as_tokens(text, corpus.split_at) for text in graph.references] for graph in corpus.graphs]
    graph_to_text = load_graph_to_text(run, config, model, **config.greedy_decoding, max_entities=ANY_SIZE)

    def measure(model):
        return bleu(
            [as_tokens(description.text, corpus.split_at) for description in graph_to_text(corpus.graphs)], references
        ).value

    return [EpochScore(measure, "val_bleu")]


def load_graph_to_text(run, config, model, **options):
    """Returns a `GraphToText` of a run with the settings of decoding, and other `options` over them."""
    arguments = config.decoding | {"max_entities": config.max_entities} | options
    return GraphToText(model, GraphVocabulary.load(run.folder / VOCABULARY), **arguments)


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    tests = load_tests(config, files)
    for corpus in tests.values():
        if corpus.damaged:
            print(corpus.summary())
    if not tests:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    tests = run.name_results(config, tests, (*DECODING, "max_graphs"), files)
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Writes the texts of test sets, prints scores, and writes them with the texts."""
    metrics = (*config.metrics, "facts") if config.built_in else config.metrics
    graph_to_text = load_graph_to_text(run, config, model, max_entities=ANY_SIZE)
    for test, parts in by_category(tests, read_json(run.folder / CATEGORIES)).items():
        corpus = tests[test]
        descriptions = graph_to_text(corpus.graphs, progress_bar(f"Writing {test}", len(corpus), config.quiet))
        settings = f"split:{corpus.split_at}|{config.decoding_signature}"
        for name, places in parts.items():
            some, written = corpus.take(places), [descriptions[index] for index in places]
            scores = score_graphs(written, some, metrics, settings)
            sources = [json.dumps(as_object(graph), ensure_ascii=False) for graph in some.graphs]
            references = ["\t".join(graph.references) for graph in some.graphs]
            write_texts(run.results / name, sources, [description.text for description in written], references, scores)
            for line in score_lines(scores.values(), settings):
                print(f"{name}: {line}")


def write(run, config, model, folder):
    """Writes a SavedModel, and tries it on some graphs whose texts the run has written, if there are any."""
    path = export_graph_to_text(load_graph_to_text(run, config, model), folder, config.run)
    lines = [line for path in sorted(run.results.glob("*/sources.txt")) for line in read_lines(path)]
    lines = [line for line in lines if len(json.loads(line)["entities"]) <= config.max_entities]
    step = max(1, len(lines) // max(1, config.samples))
    if samples := lines[::step][: config.samples]:
        tensors = graph_tensors(list(map(graph_from_json, samples)))
        for graph, text, value in zip(samples, *smoke_test(path, SMOKE_TEST, tensors), strict=True):
            print(f"  {as_triples(graph)}\n    -> {text}  ({value:.3f})")
