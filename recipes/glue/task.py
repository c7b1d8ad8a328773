"""Fine-tuning of an encoder on a task."""

import keras
import tensorflow as tf

from keras_headattn.serving import Classifier
from recipes.engine.encoder_task import EncoderTask
from recipes.engine.flops import count_flops
from recipes.engine.texts.task import TextTask
from recipes.glue.data import read_corpora, read_tests
from recipes.glue.demo import number_sentences
from recipes.glue.masked_words import fill_in
from recipes.glue.modelling import make_classifier
from recipes.glue.targets import ScoredClasses, ScoredNumbers, targets_of


class EncoderPredictor(Classifier):
    """`Classifier` that returns the outputs of the model when called."""

    def __init__(self, model, tokenizer, targets, max_length):
        names = targets.names or ["number"]
        super().__init__(model, tokenizer, names, max_length, activation=targets.activation)
        self.targets = targets

    def __call__(self, texts, second_texts=None, progress=None):
        return self.probabilities(texts, second_texts, progress)

    def measures(self, texts, second_texts=None):
        """Measures of the model itself: none."""
        return {}


class Glue(EncoderTask, TextTask):
    """Encoder with its head, and the labels of a task."""

    takes_t5 = True
    kinds = (ScoredNumbers, ScoredClasses)

    def check(self):
        super().check()
        if self.config.task == "language" and not self.config.checkpoint:
            raise ValueError("--task language needs --checkpoint, a run of recipes.pretrain say. Received: none")

    def make_head(self, vocabulary_size):
        num_outputs = self.targets.width if hasattr(self, "targets") else 2  # before there are data
        return make_classifier(self.config, vocabulary_size, num_outputs)

    def read(self):
        return read_corpora(self.config)

    def read_tests(self, files):
        return read_tests(self.config, files)

    def tests_are_shares(self):
        config = self.config
        if config.glue:
            return config.task == "mrpc"  # its dev set may be a share
        return super().tests_are_shares() and not (config.glue_task and config.validation_files)

    def make_targets(self, names=None):
        return targets_of(self.config, names, self.data and self.data.train, self.kinds)

    def texts(self):
        if self.config.embedded:
            return number_sentences(seed=self.config.split_seed)
        return [*self.data.train.texts, *(self.data.train.second_texts or ())]

    def prepare(self):
        super().prepare()
        path = self.run.folder / "pretrained.weights.h5"
        if self.data and self.config.pretraining_epochs:
            if not path.exists():
                self._pretrain(path)
            keras.utils.set_random_seed(self.config.seed)  # a continued run does not pre-train again

    def _pretrain(self, path):
        """Trains the encoder on masked words of the embedded sentences, and keeps its weights."""
        config = self.config
        encoder = self.make_model().encoder
        rows = self.tokenizer.encode(number_sentences(seed=config.split_seed))
        print(f"Masked words of {len(rows):,} sentences, {config.pretraining_epochs} epochs")
        found = fill_in(
            encoder,
            rows,
            self.tokenizer,
            config.pretraining_epochs,
            config.pretraining_rate,
            seed=config.seed,
            quiet=config.quiet,
        )
        print(f"{found:.1%} of the masked words were found.")
        self.run.save_model(encoder, path)

    def encode(self, corpus):
        ids = self.tokenizer.encode(corpus.texts, corpus.second_texts)
        return ids if isinstance(ids, dict) else {"text": ids}

    def lengths(self, texts, second_texts=None):
        ids = self.uncut_tokenizer.encode(texts, second_texts)
        return map(len, ids["token_ids"] if isinstance(ids, dict) else ids)

    def flops(self, model):
        """Operations on a text of `--max-length`."""
        return count_flops(lambda: model(tf.ones((1, self.config.max_length), tf.int32)))

    def begin(self, model):
        super().begin(model)
        if self.config.pretraining_epochs:
            model.encoder.load_weights(self.run.folder / "pretrained.weights.h5")

    def make_loss(self):
        return self.with_reduction(super().make_loss())

    def predictor(self, model):
        return EncoderPredictor(model, self.tokenizer, self.targets, self.config.max_length)
