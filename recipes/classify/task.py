"""Training of a classifier of texts."""

from keras_headattn.training import default_jit
from recipes.classify.modelling import make_attention, make_classifier
from recipes.classify.predicting import Predictor
from recipes.classify.settings import OPTIMIZERS
from recipes.classify.text import embedding_width, encode_columns, load_embeddings, make_tokenizer
from recipes.engine.optimizer import make_optimizer
from recipes.engine.texts.data import load_corpora, load_tests, read_tests
from recipes.engine.texts.targets import KINDS
from recipes.engine.texts.task import TextTask


class Classify(TextTask):
    """A classifier of texts, its labels and its words."""

    def check(self):
        embedding_width(self.config.embeddings, self.config.model_arguments.get("embedding_dim"))
        make_attention(self.config)

    def try_model(self):
        make_classifier(self.config, 8, 2)

    def read(self):
        return load_corpora(self.config)

    def read_tests(self, files):
        return load_tests(self.config) if files is None else read_tests(self.config, files)

    def make_targets(self, names=None):
        config = self.config
        kind = KINDS[config.predict]
        options = dict(label_smoothing=config.label_smoothing, label_separator=config.label_separator)
        return kind.learn(self.data.train, config.labels, **options) if names is None else kind(names, **options)

    def make_tokenizer(self):
        config, train = self.config, self.data and self.data.train
        options = {name: getattr(config, name) for name in ("vocabulary_size", "min_count", "lowercase")}
        return make_tokenizer(train, self.run.folder, config.tokens, **options)

    @property
    def tokens(self):
        """The kind of tokens."""
        return self.config.tokens

    def encode(self, corpus):
        return encode_columns(corpus, self.tokenizer, self.config.max_length)

    def make_model(self):
        return make_classifier(self.config, self.tokenizer.vocabulary_size, self.targets.width)

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        cls = OPTIMIZERS[config.optimizer]
        return make_optimizer(config, cls, learning_rate=config.learning_rate)

    def uses_xla(self):
        # XLA lacks the cuDNN kernels of a BiLSTM on GPUs.
        return default_jit() and self.config.encoder != "bilstm"

    def begin(self, model):
        super().begin(model)
        texts = [ids for column in self.batches.columns.values() for ids in column]
        if self.config.encoder == "naive_bayes":
            model.learn_ratios(texts, self.targets.of(self.data.train))
        elif self.config.embeddings:
            embedding = model.encoder.get_layer("embedding")
            load_embeddings(self.config.embeddings, self.tokenizer, embedding, texts)

    def lengths(self, texts, second_texts=None):
        sides = [texts] if second_texts is None else [texts, second_texts]
        return (max(map(len, ids)) for ids in zip(*map(self.tokenizer.encode, sides), strict=True))

    def predictor(self, model):
        return Predictor(model, self.tokenizer, self.targets, self.config.max_length)
