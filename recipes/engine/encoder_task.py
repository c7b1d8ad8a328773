"""Common part of the tasks that fine-tune a pre-trained encoder with a head."""

import functools

from recipes.engine.encoders import check_encoder
from recipes.engine.fine_tuning import fine_tuning_optimizer, make_tokenizer, warmup_steps, with_reduction
from recipes.engine.optimizer import column_trainer
from recipes.engine.task import Task


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
        check_encoder(self.config, self.takes_t5)

    def try_model(self):
        if self.config.size:
            self.make_head(8)

    def make_tokenizer(self):
        """Returns the tokenizer: the checkpoint's, or one that is learned if the run's folder lacks it."""
        return make_tokenizer(self.run, self.config, self.texts)

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
        return warmup_steps(self.config, steps)

    def make_optimizer(self, steps, num_replicas):
        return fine_tuning_optimizer(self.config, steps, self.num_layers)

    def with_reduction(self, loss):
        """Lets a loss be reduced as the optimizer of the settings needs it."""
        return with_reduction(loss, self.config)
