"""Training of a classifier of documents whose words have scores."""

import dataclasses
import json
import pathlib

import keras
import numpy as np

from keras_headattn._files import checksum, read_lines, write_atomically
from keras_headattn.data import choose_buckets
from keras_headattn.models import Bert
from keras_headattn.training import Model
from recipes.engine.confusion import report_one_class, write_confusion
from recipes.engine.encoders import check_encoder, kept_tokenizer, tokenizer_of
from recipes.engine.fingerprint import fingerprint
from recipes.engine.optimizer import make_optimizer
from recipes.engine.progress import progress_bar
from recipes.engine.task import Corpora, Task
from recipes.engine.vocabularies import learn_tokenizer
from recipes.rationales.batches import DocumentBatches
from recipes.rationales.data import classes_of, document_of, query_of, read_corpora, read_split
from recipes.rationales.modelling import make_classifier, make_encoder
from recipes.rationales.predicting import Predictor
from recipes.rationales.samples import show_samples
from recipes.rationales.states import KeptStates, WordStates
from recipes.rationales.words import WordPieces, report_cut


class Rationales(Task):
    """Encoder, what reads its states, the classes, and the word pieces."""

    choices = 1  # of a query that is multiple-choice

    def check(self):
        check_encoder(self.config)

    def try_model(self):
        if self.config.size:
            self._make_classifier(Bert.from_size(self.config.size, vocabulary_size=8, pad_id=0, pooler=False), 2)

    def _make_classifier(self, encoder, num_classes):
        return make_classifier(encoder, num_classes, self.config.model_arguments, self.config.seed)

    def load(self):
        self.data = read_corpora(self.config)
        classes, _ = classes_of(self.data.train)
        for corpus in (self.data.train, self.data.validation, *self.data.tests.values()):
            labels_of(corpus, classes)  # an unknown class is reported before training, not after it

    def fingerprint(self):
        return fingerprint(Corpora(only_read(self.data.train), only_read(self.data.validation), {}))

    def prepare(self):
        if self.data:
            classes, self.choices = classes_of(self.data.train)
            self.run.keep("labels.txt", "".join(f"{name}\n" for name in classes))
        self.classes = list(read_lines(self.run.folder / "labels.txt"))
        self.tokenizer = kept_tokenizer(self.run.folder / "tokenizer.json", self._new_tokenizer)
        self.pieces = WordPieces(self.tokenizer, self.config.window, self.config.max_windows)

    def _new_tokenizer(self):
        config = self.config
        if config.checkpoint:
            return tokenizer_of(config.checkpoint)
        train = self.data.train
        texts = [" ".join(document_of(train, each) + query_of(each)) for each in train.annotations]
        return learn_tokenizer(self.run.folder / "vocab.txt", texts, "wordpieces", config.vocabulary_size)

    def sequences(self, corpus):
        """Makes the `Sequence` of each annotation of a corpus, or of each of its choices."""
        documents = [(document_of(corpus, each), query_of(each)) for each in corpus.annotations]
        self.pieces.learn([words for pair in documents for words in pair])
        return [sequence for pair in documents for sequence in self.pieces.of_choices(*pair, self.choices)]

    def make_batches(self, num_replicas):
        config, data = self.config, self.data
        self.encoder = make_encoder(config, self.tokenizer)
        parts = {"train": data.train, "validation": data.validation}
        sequences = {name: self.sequences(corpus) for name, corpus in parts.items()}
        for name, corpus in parts.items():
            sizes = [len(document_of(corpus, each)) for each in corpus.annotations]
            report_cut(name, sizes, [each.num_words for each in sequences[name][:: self.choices]])
        states = None if config.model_argument("trainable_layers") else self.kept_states(self.encoder)
        if states:
            states.keep([*sequences["train"], *sequences["validation"]], self._progress)
        buckets = choose_buckets([len(each) for part in sequences.values() for each in part], config.num_buckets)
        common = dict(bucket_lengths=buckets, batch_size=config.batch_size, num_replicas=num_replicas, states=states)
        common |= dict(seed=config.seed, pad_id=self.tokenizer.pad_id, choices=self.choices)
        batches, validation = (
            DocumentBatches(sequences[name], labels_of(corpus, self.classes), training=name == "train", **common)
            for name, corpus in parts.items()
        )
        self.batches = batches
        return batches, validation

    def _progress(self, number):
        return progress_bar(f"Encoding {number:,} documents, which are kept in float16", number, self.config.quiet)

    def kept_states(self, encoder):
        """Returns the `KeptStates` of the frozen encoder."""
        config = self.config
        names = ("size", "attention", "attention_arguments", "num_heads", "encoder_seed")
        made_of = json.loads(json.dumps({name: getattr(config, name) for name in names}))
        made_of["checkpoint"] = _checksum_of(config.checkpoint)
        if config.size:
            made_of["vocabulary"] = checksum(self.run.folder / "tokenizer.json")

        def make_states():
            return WordStates(self._make_classifier(encoder, len(self.classes)))

        return KeptStates(config.states_folder, made_of, make_states)

    def make_model(self):
        keras.utils.set_random_seed(self.config.seed)  # with or without states on the disk
        return self._make_classifier(self.encoder, len(self.classes) // self.choices)

    def make_trainer(self, model):
        inputs, _, _ = self.batches[0]
        inputs = {
            name: keras.Input((self.choices, *_free(array)), dtype=array.dtype.name, name=name)
            for name, array in inputs.items()
        }
        return Model(
            inputs, (model if self.config.model_argument("trainable_layers") else model.reader)(inputs), name="trainer"
        )

    def make_optimizer(self, steps, num_replicas):
        return make_optimizer(self.config, keras.optimizers.Adam, learning_rate=self.config.learning_rate)

    def make_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def uses_xla(self):
        return False  # XLA lacks cuDNN's LSTM kernels, and compiles an LSTM slowly for a CPU

    def throughput(self, batches):
        return lambda: batches.num_examples, "documents_per_second"

    def load_tests(self, files=None):
        return self.run.name_results(self.config, {"test": self.read_split("test")}, ("eraser", "test_examples"))

    def read_split(self, name):
        """Reads a split of the settings."""
        return read_split(name, self.config.data_folder, self.config.split_seed, self.config.test_examples)

    def predictor(self, model):
        """`Predictor` of a finished model."""
        return Predictor(model, self.pieces, len(self.classes))

    def evaluate(self, model, tests):
        predictor = self.predictor(model)
        for name, corpus in tests.items():
            documents = [document_of(corpus, each) for each in corpus.annotations]
            queries = [query_of(each) for each in corpus.annotations]
            report_cut(name, list(map(len, documents)), predictor.num_words(documents, queries))
            progress = progress_bar(f"Reading {name}", len(corpus), self.config.quiet)
            predicted = predictor(documents, queries, progress)
            scores = performance(labels_of(corpus, self.classes), predicted)
            scores["examples"] = len(corpus)
            path = self.run.results / name / "scores.json"
            write_confusion(path.parent, labels_of(corpus, self.classes), predicted, self.classes)
            write_atomically(path, (json.dumps(scores, indent=2) + "\n").encode("utf-8"))
            print(f"{name}: accuracy {scores['accuracy']:.4f}, f1_macro {scores['f1_macro']:.4f}")
            report_one_class(name, labels_of(corpus, self.classes), predicted, self.classes)
            if self.data and not self.config.quiet:  # after training
                show_samples(self, predictor, corpus)

    def next_commands(self):
        command, run = "python -m recipes.rationales", self.config.run
        return [f"{command} score {run}", f"{command} explain {run} FILE"]

    def export(self, model, *folders):
        raise ValueError(f"This recipe writes no SavedModel: its model is in {self.run.model}")


def only_read(corpus):
    """Leaves out documents that no annotation names."""
    names = sorted({docid for each in corpus.annotations for docid in each.docids})
    return dataclasses.replace(corpus, documents={name: corpus.documents[name] for name in names})


def labels_of(corpus, classes):
    """Numbers the classes of all annotations; one that the training set has not is a `ValueError`."""
    unknown = sorted({each.classification for each in corpus.annotations} - set(classes))
    if unknown:
        raise ValueError(f"{corpus.name}: the classes of the training set are {classes}. Received: {unknown[0]!r}")
    return [classes.index(each.classification) for each in corpus.annotations]


def performance(labels, predicted):
    """Measures accuracy and the mean F1 of the classes that occur.

    >>> performance([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    {'accuracy': 0.6666666666666666, 'f1_macro': 0.6666666666666666}
    """
    labels, chosen = np.asarray(labels), np.asarray(predicted).argmax(-1)
    values = []
    for name in np.union1d(labels, chosen):
        hits = np.sum((labels == name) & (chosen == name))
        values.append(2 * hits / (np.sum(labels == name) + np.sum(chosen == name)))
    return {"accuracy": float(np.mean(labels == chosen)), "f1_macro": float(np.mean(values))}


def _free(array):
    """Returns the shape of an array after its first two axes; those of words and windows are free."""
    if array.ndim == 5:  # states
        return (None, *array.shape[3:])
    return (None,) * (array.ndim - 2)


def _checksum_of(checkpoint):
    """Returns the checksum of the largest file of a checkpoint, its weights; `None` for none."""
    if checkpoint is None:
        return None
    files = [path for path in pathlib.Path(checkpoint).iterdir() if path.is_file()]
    return checksum(max(files, key=lambda path: path.stat().st_size))
