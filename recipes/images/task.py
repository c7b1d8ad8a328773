"""Training a classifier of images."""

import keras
from keras.callbacks import LambdaCallback

from keras_headattn._files import read_lines, write_atomically
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.optimizers import StepDecay
from recipes.engine.task import Corpora, Task
from recipes.engine.training import make_optimizer
from recipes.images.data import load_training, load_validation, training_batches, validation_batches
from recipes.images.evaluation import evaluate, report_damaged
from recipes.images.exporting import export
from recipes.images.modelling import make_attention, make_classifier, make_metrics


class ImageNet(Task):
    """A residual network, and the classes of its images."""

    def check(self):
        make_attention(self.config)

    def load(self):
        train = load_training(self.config)
        validation = load_validation(self.config, train.class_names)
        self.data = Corpora(train, validation, {self.config.validation_split: validation})

    def prepare(self):
        path = self.run.folder / "classes.txt"
        if self.data:
            write_atomically(path, "".join(f"{name}\n" for name in self.data.train.class_names).encode())
        self.class_names = list(read_lines(path))

    def make_batches(self, num_replicas):
        train, validation = self.data.train, self.data.validation
        print(f"{len(train):,} images of {len(self.class_names):,} classes, {len(validation):,} to evaluate on")
        batches = training_batches(self.config, train, num_replicas)
        return batches, validation_batches(self.config, validation, num_replicas)

    def make_model(self):
        return make_classifier(self.config, len(self.class_names))

    def describe(self):
        return f"{self.config.model}, attention {self.config.attention}"

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        schedule = StepDecay(
            config.learning_rate * config.batch_size * num_replicas / 256,
            round(config.warmup_epochs * steps),
            [epoch * steps for epoch in config.decay_epochs],
        )
        return make_optimizer(config, keras.optimizers.SGD, learning_rate=schedule, momentum=config.momentum)

    def make_loss(self):
        return LabelSmoothedCrossentropy(self.config.label_smoothing)

    def make_metrics(self):
        return make_metrics(len(self.class_names))

    def throughput(self, batches):
        return lambda: len(batches) * batches.batch_size, "images_per_second"

    def shown(self, model, batches, validation):
        path = self.run.folder / "damaged.txt"
        return [LambdaCallback(on_epoch_end=lambda epoch, logs: report_damaged(path, batches, validation))]

    def load_tests(self, files=None):
        tests = {self.config.validation_split: load_validation(self.config, self.class_names)}
        is_own = self.config.validation_split == self.run.config().validation_split
        return self.name_results(tests, (*self.config.SOURCES, "resized") if is_own else ("resized",))

    def evaluate(self, model, tests):
        for name, source in tests.items():
            evaluate(model, validation_batches(self.config, source, 1), self.run.results / name, self.config.quiet)

    def export_folders(self):
        return [self.config.export_folder, f"{self.config.export_folder}_tensors"]

    def export(self, model):
        export(self.config, model, self.class_names, self.data and self.data.validation)
