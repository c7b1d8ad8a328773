"""Training of a writer of the texts of graphs."""

import functools
import json
import types

import keras

from keras_headattn._files import read_json, read_lines
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.training import EpochScore, HeadDistances, HeadNorms, Model
from recipes.engine.fresh_process import smoke_test
from recipes.engine.optimizer import make_optimizer
from recipes.engine.proportions import fitting_batch
from recipes.engine.search import DECODING
from recipes.engine.task import Task, named_apart
from recipes.graphs.batches import GraphBatches
from recipes.graphs.corpus import SPLITS, graph_tensors
from recipes.graphs.data import by_category, load_corpora, load_tests
from recipes.graphs.evaluation import as_tokens, as_triples, bleu, check_metrics, evaluate
from recipes.graphs.exports import export_graph_to_text
from recipes.graphs.files import graph_from_json, graph_of_line
from recipes.graphs.graph_to_text import GraphToText
from recipes.graphs.modelling import make_attention, make_writer
from recipes.graphs.vocabulary import GraphVocabulary

OPTIMIZERS = {"sgd": functools.partial(keras.optimizers.SGD, momentum=0.9), "adam": keras.optimizers.Adam}
VOCABULARY, CATEGORIES = "vocabulary.json", "categories.json"
SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
result = [[text.decode() for text in found["texts"].numpy()], found["scores"].numpy().tolist()]
"""


class WriteGraphs(Task):
    """`GraphWriter`, its graphs and its words."""

    def check(self):
        check_metrics(self.config.metrics)
        make_attention(self.config)

    def try_model(self):
        names = ("vocabulary_size", "entity_vocabulary_size", "num_relations", "title_vocabulary_size")
        make_writer(self.config, types.SimpleNamespace(**dict.fromkeys(names, 8), forbidden_ids=()))

    def load(self):
        self.data = load_corpora(self.config)

    def prepare(self):
        path = self.run.folder / VOCABULARY
        if self.data:
            if not path.exists():
                arguments = {"min_count": min(5, 1 + len(self.data.train.graphs) // 10_000)}
                arguments |= {k: v for k, v in self.config.vocabulary_arguments.items() if v is not None}
                GraphVocabulary.learn(self.data.train, **arguments).save(path)
            found = sorted({graph.category for graph in self.data.train.graphs})
            self.run.keep(CATEGORIES, json.dumps(found))
        self.vocabulary = GraphVocabulary.load(path)
        self.categories = read_json(self.run.folder / CATEGORIES)

    def make_batches(self, num_replicas):
        config, vocabulary = self.config, self.vocabulary
        train, validation = (self._examples(part) for part in (self.data.train, self.data.validation))
        lengths = [len(example["target"]) for example in train]
        longest = max(len(example["target"]) for example in (*train, *validation))
        fitting = fitting_batch(sum(lengths), 3_520, num_replicas * max(400, longest))
        common = dict(
            tokens_per_batch=config.tokens_per_batch or fitting,
            **config.bucket_arguments,
            num_replicas=num_replicas,
        )
        self._report_long_names()
        print(
            f"{vocabulary.vocabulary_size:,} words of texts, {vocabulary.entity_vocabulary_size:,} of entities, "
            f"{vocabulary.title_vocabulary_size or 0:,} of titles, {vocabulary.num_relations} relations"
        )
        return GraphBatches(train, seed=config.seed, **common), GraphBatches(validation, shuffle=False, **common)

    def _examples(self, corpus):
        """Keeps the examples whose texts are not too long."""
        found = self.vocabulary.examples(corpus)
        kept = [example for example in found if len(example["target"]) <= self.config.max_length]
        longer = f"{len(found) - len(kept):,} of {len(found):,} texts have more tokens than --max-length"
        if not kept:
            raise ValueError(f"{longer}. Received: max_length={self.config.max_length} for {corpus.name}")
        if len(kept) < len(found):
            print(f"{corpus.name}: {longer} {self.config.max_length} and are left out")
        return kept

    def _report_long_names(self):
        """Prints how many names of training are read in part, because of `max_words`."""
        train, most = self.data.train, self.vocabulary.max_words
        lengths = [len(SPLITS[train.split](name)) for graph in train.graphs for name in graph.entities]
        if most and (longer := sum(length > most for length in lengths)):
            print(f"{train.name}: of {longer:,} of {len(lengths):,} names the first {most} words are read (max_words)")

    def make_model(self):
        return make_writer(self.config, self.vocabulary)

    def make_trainer(self, model):
        shapes = {"entities": (None, None), "types": (None,), "triples": (None, 3), "target": (None,)}
        shapes |= {"title": (None,)} if self.vocabulary.title_words else {}
        inputs = {name: keras.Input(shape, dtype="int32", name=name) for name, shape in shapes.items()}
        return Model(inputs, model(inputs), name="trainer")

    def make_optimizer(self, steps, num_replicas):
        return make_optimizer(self.config, OPTIMIZERS[self.config.optimizer], learning_rate=self.config.learning_rate)

    def make_loss(self):
        return LabelSmoothedCrossentropy(0.0)

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def throughput(self, batches):
        return lambda: batches.num_tokens["target"], "tokens_per_second"

    def reports(self, model, batches):
        distances = HeadDistances(roles=("encoder",))
        return [distances] if distances.applies_to(model) else []

    def scores(self, model):
        number = self.config.validation_graphs
        if not number:
            return []
        corpus = self.data.validation.sample(number)
        references = [[as_tokens(text, corpus.split) for text in graph.references] for graph in corpus.graphs]
        graph_to_text = self.graph_to_text(model, **self.config.greedy_decoding, max_entities=10**6)

        def score(model):
            return bleu([as_tokens(each.text, corpus.split) for each in graph_to_text(corpus.graphs)], references).value

        return [EpochScore(score, "val_bleu")]

    def shown(self, model, batches, validation):
        return [HeadNorms(self.run.log_dir)]

    def load_tests(self, files=None):
        tests = load_tests(self.config, files)
        for corpus in tests.values():
            if corpus.damaged:
                print(corpus.summary())
        if files is not None:
            tests = named_apart(tests, self.run.read_config().names_of_tests)
        return self.run.name_results(self.config, tests, DECODING)

    def graph_to_text(self, model, **options):
        """Returns a `GraphToText` with the settings of decoding, and other `options` over them."""
        own = self.config.decoding | {"max_entities": self.config.max_entities}
        return GraphToText(model, self.vocabulary, **own | options)

    def read_graph(self, line, number):
        """Reads the `Graph` of a line of JSON; one with too many entities is a `ValueError`."""
        graph = graph_of_line(line, number)
        if len(graph.entities) > self.config.max_entities:
            raise ValueError(
                f"Line {number}: a graph may have --max-entities {self.config.max_entities}. "
                f"Received: {len(graph.entities)} entities"
            )
        return graph

    def evaluate(self, model, tests):
        config, parts = self.config, by_category(tests, self.categories)
        metrics = (*config.metrics, "facts") if config.embedded else config.metrics
        graph_to_text = self.graph_to_text(model, max_entities=10**6)
        evaluate(graph_to_text, tests, parts, metrics, config.decoding_signature, self.run.results, config.quiet)

    def export(self, model, folder):
        path = export_graph_to_text(self.graph_to_text(model), folder, self.config.run)
        graphs = self._samples()
        step = max(1, len(graphs) // max(1, self.config.samples))
        if samples := graphs[::step][: self.config.samples]:
            tensors = graph_tensors([graph_from_json(sample) for sample in samples])
            for graph, text, score in zip(samples, *smoke_test(path, SMOKE_TEST, tensors), strict=True):
                print(f"  {as_triples(graph)}\n    -> {text}  ({score:.3f})")

    def _samples(self):
        """Graphs of the test sets whose texts were written, as JSON, but for those that are too large."""
        paths = sorted(self.run.results.glob("*/sources.txt"))
        lines = [line for path in paths for line in read_lines(path)]
        return [line for line in lines if len(json.loads(line)["entities"]) <= self.config.max_entities]
