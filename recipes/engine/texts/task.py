"""Training of classifiers of texts."""

import numpy as np

from keras_headattn._files import read_lines
from keras_headattn.data import LabelledBatches, choose_buckets, example_lengths
from keras_headattn.serving import export_classifier, export_regressor, write_examples
from recipes.engine.fresh_process import packages_of, smoke_test
from recipes.engine.optimizer import column_trainer
from recipes.engine.task import Task, named_apart
from recipes.engine.texts.evaluation import evaluate

SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
if "values" in found:
    result = [f"{value:.3f}" for value in found["values"].numpy()]
else:
    rows = zip(found["classes"].numpy(), found["scores"].numpy())
    result = [f"{names[0].decode()} ({scores[0]:.3f})" for names, scores in rows]
"""


class TextTask(Task):
    """The common part of recipes whose model gives a text, or a pair, classes or a number.

    A subclass has the methods of `Task` that are missing here, and those that raise an error.
    """

    def read(self):
        """Returns the texts of the settings, `Corpora`."""
        raise NotImplementedError

    def read_tests(self, files):
        """Reads test sets of files, or for `None` those of the settings: dictionary of `LabelledText` by name."""
        raise NotImplementedError

    def tests_are_shares(self):
        """True if the test sets of the settings are a part of the training set."""
        return self.config.data == "train" and not self.config.test

    def make_targets(self, names=None):
        """The predictions, as of `recipes.engine.texts.targets`: with these names, or with those of the texts."""
        raise NotImplementedError

    def make_tokenizer(self):
        """Returns the tokenizer, which is learned if the run's folder lacks it."""
        raise NotImplementedError

    def encode(self, corpus):
        """Returns the ids of a `LabelledText`: dictionary of columns, which are the inputs of the model by name."""
        raise NotImplementedError

    def lengths(self, texts, second_texts=None):
        """Returns the number of tokens of each text; of a pair that of the longer side, or of both together."""
        raise NotImplementedError

    def predictor(self, model):
        """Returns a `Classifier` of the run, for `recipes.engine.texts.evaluation.evaluate`."""
        raise NotImplementedError

    def load(self):
        self.data = self.read()
        self.targets = self.make_targets()
        for corpus in (self.data.validation, *self.data.tests.values()):
            self.targets.of(corpus)  # an unknown label is reported before training, not after it

    def prepare(self):
        if self.data:
            self.run.keep("labels.txt", "".join(f"{name}\n" for name in self.targets.names))
        self.targets = self.make_targets(list(read_lines(self.run.folder / "labels.txt")))
        self.tokenizer = self.make_tokenizer()

    def make_batches(self, num_replicas):
        config, data, targets = self.config, self.data, self.targets
        train, validation = map(self.encode, (data.train, data.validation))
        buckets = choose_buckets(example_lengths(train), config.num_buckets)
        longest = int(example_lengths(validation).max())
        labels = targets.of(data.train)
        weights = balanced_class_weights(labels, targets.width) if config.class_weights == "balanced" else None
        pad_id = getattr(self.tokenizer, "pad_id", 0)
        common = dict(batch_size=config.batch_size, num_replicas=num_replicas, seed=config.seed, pad_id=pad_id)
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
        print(f"{outputs}, {self.tokenizer.vocabulary_size:,} {self.tokens}")
        return self.batches, held_out

    def make_trainer(self, model):
        return column_trainer(self.batches.columns, lambda columns: model(self.model_inputs(columns)))

    def model_inputs(self, columns):
        """Returns the inputs of the model: the columns of a pair as a tuple, but as they are with segments."""
        if "segment_ids" in columns:
            return columns
        return tuple(columns.values()) if len(columns) > 1 else next(iter(columns.values()))

    def begin(self, model):
        if not self.targets.names:  # predictions of numbers start at their mean
            bias = model.output_projection.bias
            bias.assign(np.full(bias.shape, self.targets.of(self.data.train).mean()))

    def make_loss(self):
        return self.targets.make_loss()

    def make_metrics(self):
        return self.targets.make_metrics()

    def throughput(self, batches):
        return lambda: batches.num_examples, "texts_per_second"

    def load_tests(self, files=None):
        if files is None and self.tests_are_shares():  # the training set must be the same
            self.data = self.read()
            self.run.check_data(self.fingerprint())
            tests, self.data = self.data.tests, None
        else:
            tests = self.read_tests(files)
        if files is None:
            return self.run.name_results(self.config, tests, ("tfds", "drop_labels", "max_examples"))
        return named_apart(tests, self.run.read_config().names_of_tests)

    def evaluate(self, model, tests):
        is_pair = self.run.read_config().is_pair
        if is_pair != self.is_pair:
            trained = "pairs: it needs" if is_pair else "single texts: it takes no"
            raise ValueError(f"The run is of {trained} --second-column. Received: {self.config.second_column!r}")
        evaluate(self.predictor(model), tests, self.targets, self.run.results, self.config.quiet)

    def write(self, model, folder):
        """Writes the SavedModel, and returns its path."""
        config, tokenizer, targets = self.config, self.tokenizer, self.targets
        common = dict(max_length=config.max_length, pairs=self.is_pair, run=config.run, **config.export_arguments)
        if not targets.names:
            return export_regressor(model, tokenizer, folder, **common)
        common |= dict(activation=targets.activation)
        return export_classifier(model, tokenizer, targets.names, folder, **common)

    def export(self, model, folder):
        config, tokenizer = self.config, self.tokenizer
        path = self.write(model, folder)
        if self.data and config.samples:
            corpus = next(iter(self.data.tests.values()), self.data.validation)
            samples = corpus.sample(config.samples, config.seed)
            sides = {"text": samples.texts} | ({"second_text": samples.second_texts} if self.is_pair else {})
            rows = zip(*sides.values(), strict=True)
            write_examples(path, [dict(zip(sides, row, strict=True)) for row in rows])
            found = smoke_test(path, SMOKE_TEST, sides, *packages_of(tokenizer))
            for label, prediction, *texts in zip(samples.labels, found, *sides.values(), strict=True):
                print(f"  {' | '.join(texts)}\n    -> {prediction}, labelled {label}")

    @property
    def is_pair(self):
        """True if pairs of texts are read."""
        return self.config.is_pair

    tokens = "pieces"


def balanced_class_weights(labels, num_classes):
    """Weights `(C,)` by which all classes count the same: the mean number of examples of a class over its own.

    Over all examples their mean is 1. A class without examples has 0.

    >>> balanced_class_weights([0, 0, 0, 1], 2).tolist()
    [0.6666666865348816, 2.0]
    """
    counts = np.bincount(np.asarray(labels), minlength=num_classes)
    present = counts > 0
    weights = np.zeros(num_classes, "float32")
    weights[present] = len(labels) / (present.sum() * counts[present])
    return weights
