"""Training a classifier of texts."""

import keras

from keras_headattn._files import read_lines, write_atomically
from keras_headattn.data import LabelledBatches, balanced_class_weights, choose_buckets, example_lengths
from keras_headattn.serving import export_classifier, export_regressor
from keras_headattn.training import Model, default_jit
from recipes.engine.fresh_process import show_page, try_out
from recipes.engine.task import Task, check_new
from recipes.engine.training import make_optimizer
from recipes.sentences.data import load_corpora, load_tests, names_of_tests, read_tests
from recipes.sentences.evaluation import evaluate
from recipes.sentences.modelling import make_attention, make_classifier
from recipes.sentences.predicting import Predictor
from recipes.sentences.targets import KINDS
from recipes.sentences.text import embedding_width, encode_columns, load_embeddings, make_tokenizer

OPTIMIZERS = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD, "adagrad": keras.optimizers.Adagrad}

TRY_OUT = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
if "values" in found:
    result = [f"{value:.3f}" for value in found["values"].numpy()]
else:
    rows = zip(found["classes"].numpy(), found["scores"].numpy())
    result = [f"{names[0].decode()} ({scores[0]:.3f})" for names, scores in rows]
"""


class Classify(Task):
    """A classifier of texts, its labels and its words."""

    def check(self):
        embedding_width(self.config)
        make_attention(self.config)

    def load(self):
        self.data = load_corpora(self.config)
        self.targets = KINDS[self.config.predict].learn(self.data.train, self.config)
        for corpus in (self.data.validation, *self.data.tests.values()):
            self.targets.of(corpus)  # an unknown label is reported before training, not after it

    def prepare(self):
        path = self.run.folder / "labels.txt"
        if self.data:
            write_atomically(path, "".join(f"{name}\n" for name in self.targets.names).encode("utf-8"))
        self.targets = KINDS[self.config.predict](list(read_lines(path)), self.config)
        self.tokenizer = make_tokenizer(self.config, self.data and self.data.train, self.run.folder)

    def make_batches(self, num_replicas):
        config, data, targets = self.config, self.data, self.targets
        train, validation = (encode_columns(config, self.tokenizer, corpus) for corpus in (data.train, data.validation))
        buckets = choose_buckets(example_lengths(train), config.num_buckets)
        longest = int(example_lengths(validation).max())
        labels = targets.of(data.train)
        weights = balanced_class_weights(labels, targets.width) if config.class_weights == "balanced" else None
        common = dict(batch_size=config.batch_size, num_replicas=num_replicas, seed=config.seed)
        self.batches = LabelledBatches(
            train, labels, bucket_lengths=buckets, class_weights=weights, training=True, **common
        )
        held_out = LabelledBatches(
            validation,
            targets.of(data.validation),
            bucket_lengths=(*buckets, longest) if longest > buckets[-1] else buckets,
            **common,
        )
        outputs = f"{len(targets.names)} labels" if targets.names else "numbers"
        print(f"{outputs}, {self.tokenizer.vocabulary_size:,} {config.tokens}")
        return self.batches, held_out

    def make_model(self):
        return make_classifier(self.config, self.tokenizer.vocabulary_size, self.targets.width)

    def make_trainer(self, model):
        names = ("text", "second_text") if self.config.is_pair else ("text",)
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        return Model(inputs, model(tuple(inputs.values()) if self.config.is_pair else inputs["text"]), name="trainer")

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        return make_optimizer(
            config, OPTIMIZERS[config.optimizer], learning_rate=config.learning_rate, clipvalue=config.clipvalue
        )

    def make_loss(self):
        return self.targets.make_loss()

    def make_metrics(self):
        return self.targets.make_metrics()

    def describe(self):
        attention = f" with {super().describe()}" if self.config.encoder == "transformer" else ""
        return f"{self.config.encoder}{attention}, {self.config.pooling_heads} heads of pooling"

    def uses_xla(self):
        # A BiLSTM has kernels of cuDNN's on GPUs, which XLA does not have.
        return default_jit() and self.config.encoder != "bilstm"

    def begin(self, model):
        if self.config.embeddings:
            texts = [ids for column in self.batches.columns.values() for ids in column]
            load_embeddings(self.config, self.tokenizer, model.encoder.embedding, texts)

    def throughput(self, batches):
        return lambda: batches.num_examples, "texts_per_second"

    def load_tests(self, files=None):
        if files is None:
            return self.name_results(load_tests(self.config), ("tfds",))
        tests = read_tests(self.config, files)
        check_new(tests, names_of_tests(self.run.config()))
        return tests

    def predictor(self, model):
        """A `Predictor` of the run."""
        return Predictor(model, self.tokenizer, self.targets, self.config)

    def evaluate(self, model, tests):
        evaluate(self.predictor(model), tests, self.targets, self.run.results)

    def export(self, model):
        config, tokenizer, targets = self.config, self.tokenizer, self.targets
        common = dict(max_length=config.max_length, pairs=config.is_pair, run=config.run, attention=config.export_maps)
        if config.predict == "number":
            path = export_regressor(model, tokenizer, config.export_folder, **common)
        else:
            common |= dict(activation=targets.activation)
            path = export_classifier(model, tokenizer, targets.names, config.export_folder, **common)
        print(f"SavedModel: {path}")
        if self.data and config.samples:
            corpus = next(iter(self.data.tests.values()), self.data.validation)
            samples = corpus.sample(config.samples, config.seed)
            sides = {"text": samples.texts} | ({"second_text": samples.second_texts} if config.is_pair else {})
            found = try_out(path, TRY_OUT, sides, *["tensorflow_text"] * (config.tokens == "pieces"))
            for label, prediction, *texts in zip(samples.labels, found, *sides.values(), strict=True):
                print(f"  {' | '.join(texts)}\n    -> {prediction}, labelled {label}")
        show_page(config)
