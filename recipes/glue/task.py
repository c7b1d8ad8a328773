"""Fine-tuning of an encoder on a task."""

import functools
import types

import keras

from keras_headattn.optimizers import AdamWeightDecay, LinearDecay, layerwise_rates
from keras_headattn.serving import Classifier
from recipes.engine.encoders import check_encoder, kept_tokenizer, tokenizer_of
from recipes.engine.texts.task import TextTask
from recipes.engine.training import make_optimizer
from recipes.engine.vocabularies import learn_tokenizer
from recipes.glue.data import read_corpora, read_tests
from recipes.glue.demo import number_sentences
from recipes.glue.masked_words import fill_in
from recipes.glue.modelling import make_classifier
from recipes.glue.targets import ScoredClasses, ScoredNumbers, targets_of

WITHOUT_DECAY = ["bias", "gamma", "beta", "scale"]  # of layers; norms and biases have these names


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


class Glue(TextTask):
    """Encoder with its head, and the labels of a task."""

    kinds = (ScoredNumbers, ScoredClasses)
    num_layers = 1  # before there is a model

    def check(self):
        check_encoder(self.config)
        if self.config.task == "language" and not self.config.checkpoint:
            raise ValueError("--task language needs --checkpoint, a run of recipes.pretrain say. Received: none")

    def try_model(self):
        if self.config.size:
            make_classifier(self.config, types.SimpleNamespace(vocabulary_size=8, pad_id=0), 2)

    def read(self):
        return read_corpora(self.config)

    def read_tests(self, files):
        return read_tests(self.config, files)

    def tests_are_shares(self):
        config = self.config
        if config.glue:
            return config.task == "mrpc"  # its dev set may be a share
        return super().tests_are_shares() and not (config.glue_task and config.validation)

    def make_targets(self, names=None):
        return targets_of(self.config, names, self.data and self.data.train, self.kinds)

    def make_tokenizer(self):
        return kept_tokenizer(self.run.folder / "tokenizer.json", self._new_tokenizer)

    def _new_tokenizer(self):
        config = self.config
        if config.checkpoint:
            return tokenizer_of(config.checkpoint, config.max_length)
        texts = [*self.data.train.texts, *(self.data.train.second_texts or ())]
        if config.embedded:
            texts = number_sentences(seed=config.split_seed)
        tokenizer = learn_tokenizer(self.run.folder / "vocab.txt", texts, "wordpieces", config.vocabulary_size)
        return tokenizer.with_max_length(config.max_length)

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

    @functools.cached_property
    def uncut_tokenizer(self):
        """The tokenizer, without a limit."""
        return type(self.tokenizer).from_config({**self.tokenizer.get_config(), "max_length": None})

    def lengths(self, texts, second_texts=None):
        ids = self.uncut_tokenizer.encode(texts, second_texts)
        return map(len, ids["token_ids"] if isinstance(ids, dict) else ids)

    def make_model(self):
        model = make_classifier(self.config, self.tokenizer, self.targets.width)
        model.build()
        return model

    def make_trainer(self, model):
        self.num_layers = model.encoder.num_layers
        return super().make_trainer(model)

    def begin(self, model):
        super().begin(model)
        if self.config.pretraining_epochs:
            model.encoder.load_weights(self.run.folder / "pretrained.weights.h5")

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        total = max(2, steps * config.epochs)
        is_electra = config.optimizer == "electra"
        warmup = min(round(config.warmup_share * total), total - 1)
        schedule = LinearDecay(config.learning_rate, warmup, total, decay_in_warmup=is_electra)
        if is_electra:
            rates = None if config.layer_decay is None else layerwise_rates(self.num_layers, config.layer_decay)
            return make_optimizer(config, AdamWeightDecay, learning_rate=schedule, rates=rates)
        optimizer = make_optimizer(config, keras.optimizers.AdamW, learning_rate=schedule)
        optimizer.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
        return optimizer

    def make_loss(self):
        loss = super().make_loss()
        if self.config.optimizer == "electra":
            loss.reduction = "sum"
        return loss

    def describe(self):
        source = self.config.checkpoint or self.config.size
        return f"{super().describe()}, {source}"

    def predictor(self, model):
        return EncoderPredictor(model, self.tokenizer, self.targets, self.config.max_length)
