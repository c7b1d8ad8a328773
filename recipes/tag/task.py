"""Fine-tuning of an encoder that tags words."""

import json
import math

import keras
import numpy as np

from keras_headattn._files import read_lines, write_atomically
from keras_headattn.data import choose_buckets
from keras_headattn.models import TokenClassifier
from keras_headattn.serving import Tagger, export_tagger, write_examples
from keras_headattn.text import TextWindows, join_words
from keras_headattn.training import EpochScore
from recipes.engine.config import passing_on
from recipes.engine.encoder_task import EncoderTask
from recipes.engine.encoders import make_encoder
from recipes.engine.fresh_process import packages_of, smoke_test
from recipes.engine.progress import progress_bar
from recipes.engine.task import check_batch_size, named_apart
from recipes.tag.batches import TokenLabelBatches
from recipes.tag.conll import tag_names, tag_scores
from recipes.tag.data import read_corpora, read_tests

PORTION = 1_000  # sentences encoded at a time
SMOKE_TEST = """
found = call(text=tf.constant(given))
rows = zip(found["entities"].numpy(), found["kinds"].numpy())
result = [[f"{kind.decode()} {text.decode()}" for text, kind in zip(*row) if kind] for row in rows]
"""


class Tag(EncoderTask):
    """Encoder with a head for each token, and the names of the tags."""

    page = False

    names = ("O", "B")  # before there are data

    def make_head(self, vocabulary_size):
        encoder, _, of_head = make_encoder(self.config, vocabulary_size, TokenClassifier)
        with passing_on("model_arguments"):
            return TokenClassifier(encoder, len(self.names), **of_head)

    def load(self):
        self.data = self.corpora or read_corpora(self.config)
        self.names = tag_names(self.data.train.tags)
        for corpus in (self.data.validation, *self.data.tests.values()):
            if unknown := set(tag_names(corpus.tags)) - set(self.names):
                print(f"{corpus.name} has tags that are not learned: {', '.join(sorted(unknown))}")

    def prepare(self):
        if self.data:
            self.run.keep("labels.txt", "".join(f"{name}\n" for name in self.names))
        self.names = list(read_lines(self.run.folder / "labels.txt"))
        self.tokenizer = self.make_tokenizer()

    def texts(self):
        return map(" ".join, self.data.train.words)

    def encode(self, corpus):
        """Returns rows of ids, the windows of all sentences, and the label of each id, -1 for none."""
        windows = TextWindows(self.tokenizer, self.config.max_length)
        ids = {name: index for index, name in enumerate(self.names)}
        rows, labels = [], []
        for begin in range(0, len(corpus), PORTION):
            part = corpus.take(range(begin, min(begin + PORTION, len(corpus))))
            texts, *spans = join_words(part.words)
            found = windows(texts)
            places = found.first_pieces(*spans).flat_values.numpy()
            of_words = np.array([ids.get(tag, -1) for tags in part.tags for tag in tags])
            token_ids = found.token_ids.numpy()
            of_ids = np.full(token_ids.size, -1)
            of_ids[places[places >= 0]] = of_words[places >= 0]
            lengths = (token_ids != self.tokenizer.pad_id).sum(axis=1)
            rows += [row[:length] for row, length in zip(token_ids, lengths, strict=True)]
            labels += [row[:length] for row, length in zip(of_ids.reshape(token_ids.shape), lengths, strict=True)]
        return rows, labels

    def make_batches(self, num_replicas):
        config = self.config
        check_batch_size(config.batch_size, num_replicas)
        parts = [self.encode(corpus) for corpus in (self.data.train, self.data.validation)]
        buckets = choose_buckets([len(row) for rows, _ in parts for row in rows], config.num_buckets)
        common = dict(batch_size=config.batch_size, bucket_lengths=buckets, seed=config.seed)
        common |= dict(pad_id=self.tokenizer.pad_id)
        self.batches, validation = (TokenLabelBatches(*part, training=part is parts[0], **common) for part in parts)
        print(f"{len(self.names)} tags, {self.tokenizer.vocabulary_size:,} pieces")
        return self.batches, validation

    def make_loss(self):
        return self.with_reduction(keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def throughput(self, batches):
        return lambda: batches.num_examples, "texts_per_second"

    def tagger(self, model):
        """Returns the `Tagger` of the run."""
        return Tagger(model, self.tokenizer, self.names, self.config.max_length)

    def scores(self, model):
        tagger, corpus = self.tagger(model), self.data.validation

        def score(_):
            return measure(corpus.tags, tagger.tag_words(corpus.words))["score"]

        return [EpochScore(score, "val_score")]

    def load_tests(self, files=None):
        tests = read_tests(self.config, files)
        if files is None:
            return self.name_results(tests, ("max_examples",))
        return named_apart(tests, self.run.config().names_of_tests)

    def evaluate(self, model, tests):
        tagger = self.tagger(model)
        for name, corpus in tests.items():
            progress = progress_bar(f"Reading {name}", len(corpus), self.config.quiet)
            predicted = tagger.tag_words(corpus.words, progress)
            scores = measure(corpus.tags, predicted)
            print(f"{name}: " + ", ".join(f"{measure} {value:.4f}" for measure, value in scores.items()))
            write(self.run.results / name, corpus, predicted, scores)

    def export(self, model, folder):
        config = self.config
        common = dict(max_length=config.max_length, run=config.run, **config.export_arguments)
        path = export_tagger(model, self.tokenizer, self.names, folder, **common)
        if self.data and config.samples:
            corpus = next(iter(self.data.tests.values()), self.data.validation)
            texts = list(map(" ".join, corpus.sample(config.samples, config.seed).words))
            write_examples(path, [{"text": text} for text in texts])
            tried = smoke_test(path, SMOKE_TEST, texts, *packages_of(self.tokenizer))
            for text, found in zip(texts, tried, strict=True):
                print(f"  {text}\n    -> {', '.join(found) or 'nothing'}")

    def next_commands(self):
        return [f"python -m recipes.tag predict {self.config.run} FILE"]


def measure(tags, predicted):
    """Returns the scores of tags, first `score`: 100 times F1, or the accuracy of tags that mark no entities."""
    scores = tag_scores(tags, predicted)
    return {"score": 100 * scores.get("f1", scores["accuracy"])} | scores


def write(folder, corpus, predicted, scores):
    """Writes the scores, and a CoNLL file of words, tags and predicted tags."""
    found = {name: None if math.isnan(value) else value for name, value in scores.items()}
    found["examples"] = len(corpus)
    write_atomically(folder / "scores.json", (json.dumps(found, indent=2) + "\n").encode())
    sentences = zip(corpus.words, corpus.tags, predicted, strict=True)
    blocks = ["".join(f"{' '.join(row)}\n" for row in zip(*columns, strict=True)) for columns in sentences]
    write_atomically(folder / "predictions.conll", "\n".join(blocks).encode("utf-8"))
