"""Common part of the tasks that fine-tune a pre-trained encoder with a head."""

import functools

import keras

from keras_headattn.optimizers import AdamWeightDecay, LinearDecay, layerwise_rates
from recipes.engine.encoders import check_encoder, kept_tokenizer, model_type, tokenizer_of
from recipes.engine.task import Task
from recipes.engine.training import column_trainer, make_optimizer
from recipes.engine.vocabularies import learn_tokenizer

WITHOUT_DECAY = ["bias", "gamma", "beta", "scale"]  # of layers; norms and biases have these names


class EncoderTask(Task):
    """Encoder with a head, by the settings `FineTuning`.

    A subclass has `make_head`, `texts`, and the methods of `Task` that are missing here. Its `make_batches` sets
    `batches`, whose columns are a tokenizer's output.
    """

    takes_t5 = False
    num_layers = 1  # before there is a model

    def make_head(self, vocabulary_size):
        """Returns an encoder with its head, unbuilt. `vocabulary_size` is for an encoder of random weights."""
        raise NotImplementedError

    def texts(self):
        """Returns the texts that a tokenizer is learned from."""
        raise NotImplementedError

    def check(self):
        check_encoder(self.config)
        checkpoint = self.config.checkpoint
        if checkpoint and not self.takes_t5 and "t5" in model_type(checkpoint):
            raise ValueError(f"--checkpoint must be of an encoder, not of a T5. Received: {checkpoint}")

    def try_model(self):
        if self.config.size:
            self.make_head(8)

    def make_tokenizer(self):
        """Returns the tokenizer: the checkpoint's, or one that is learned if the run's folder lacks it."""
        return kept_tokenizer(self.run.folder / "tokenizer.json", self._new_tokenizer)

    def _new_tokenizer(self):
        config = self.config
        if config.checkpoint:
            return tokenizer_of(config.checkpoint, config.max_length)
        path = self.run.folder / "vocab.txt"
        tokenizer = learn_tokenizer(path, self.texts(), "wordpieces", config.vocabulary_size)
        return tokenizer.with_max_length(config.max_length)

    @functools.cached_property
    def uncut_tokenizer(self):
        """The tokenizer, without a limit."""
        return type(self.tokenizer).from_config({**self.tokenizer.get_config(), "max_length": None})

    def make_model(self):
        model = self.make_head(self.tokenizer.vocabulary_size)
        model.build()
        return model

    def make_trainer(self, model):
        self.num_layers = model.encoder.num_layers
        return column_trainer(self.batches.columns, lambda x: model(x if len(x) > 1 else next(iter(x.values()))))

    def warmup(self, steps):
        total = max(2, steps * self.config.epochs)
        return min(round(self.config.warmup_share * total), total - 1)

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        total = max(2, steps * config.epochs)
        is_electra = config.optimizer == "electra"
        schedule = LinearDecay(config.learning_rate, self.warmup(steps), total, decay_in_warmup=is_electra)
        if is_electra:
            rates = None if config.layer_decay is None else layerwise_rates(self.num_layers, config.layer_decay)
            return make_optimizer(config, AdamWeightDecay, learning_rate=schedule, rates=rates)
        optimizer = make_optimizer(config, keras.optimizers.AdamW, learning_rate=schedule)
        optimizer.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
        return optimizer

    def with_reduction(self, loss):
        """Lets a loss be reduced as the optimizer of the settings needs it."""
        if self.config.optimizer == "electra":
            loss.reduction = "sum"
        return loss

    def describe(self):
        return f"{super().describe()}, {self.config.checkpoint or self.config.size}"
