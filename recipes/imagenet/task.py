"""Training of a classifier of images."""

import base64
import functools
import math

import keras
import tensorflow as tf
from keras.callbacks import LambdaCallback

from keras_headattn._files import read_lines
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.optimizers import StepDecay
from keras_headattn.serving import export_image_classifier, export_pixel_classifier
from recipes.engine.flops import count_flops
from recipes.engine.fresh_process import smoke_test
from recipes.engine.optimizer import make_optimizer
from recipes.engine.task import Corpora, Task
from recipes.imagenet.augmentation import decode
from recipes.imagenet.batches import ImageBatches
from recipes.imagenet.data import evaluation_pixels, fingerprint, load_training, load_validation, training_batches
from recipes.imagenet.evaluation import evaluate, report_damaged
from recipes.imagenet.modelling import make_attention, make_classifier, make_metrics
from recipes.imagenet.settings import OPTIMIZERS

DECAYS = (0.3, 0.6, 0.8, 0.9)  # shares of the epochs after which the rate falls
# Parts of names: biases, norms, class token and positions.
WITHOUT_DECAY = ["bias", "gamma", "beta", "class_token", "embeddings"]
SMOKE_TEST = """
import base64
found = call(images=tf.constant([base64.b64decode(file) for file in given]))
result = [[row[0].decode() for row in found["classes"].numpy()], found["scores"][:, 0].numpy().tolist()]
"""


def decayed(optimizer, **arguments):
    """Makes an optimizer that decays kernels alone."""
    made = optimizer(**arguments)
    made.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
    return made


class ImageNet(Task):
    """Network, and the classes of its images."""

    def check(self):
        make_attention(self.config)

    def try_model(self):
        make_classifier(self.config, 2)

    def load(self):
        train = load_training(self.config)
        validation = load_validation(self.config, train.class_names)
        self.data = Corpora(train, validation, {self.config.validation_split: validation})

    def prepare(self):
        if self.data:
            self.run.keep("classes.txt", "".join(f"{name}\n" for name in self.data.train.class_names))
        self.class_names = list(read_lines(self.run.folder / "classes.txt"))

    def fingerprint(self):
        parts = {"training": self.data.train, "validation": self.data.validation}
        return {name: fingerprint(source) for name, source in parts.items()}

    def make_batches(self, num_replicas):
        train, validation = self.data.train, self.data.validation
        print(f"{len(train):,} images of {len(self.class_names):,} classes, {len(validation):,} to evaluate on")
        batches = training_batches(self.config, train, num_replicas)
        return batches, self.validation_batches(validation, num_replicas, self.config.mixes)

    def validation_batches(self, source, num_replicas=1, one_hot=False):
        """Makes batches to evaluate on, each image once."""
        return ImageBatches(source, self.config.batch_size * num_replicas, self._pixels, one_hot=one_hot)

    @property
    def _pixels(self):
        return evaluation_pixels(self.config.image_size, self.config.evaluation_side)

    def make_model(self):
        batch_size = self.config.batch_size * tf.distribute.get_strategy().num_replicas_in_sync
        return make_classifier(self.config, len(self.class_names), len(self.data.train) / batch_size)

    def flops(self, model):
        """Operations on an image."""
        size = self.config.image_size
        return count_flops(lambda: model(tf.zeros((1, size, size, 3))))

    def warmup(self, steps):
        epochs = self.config.warmup_epochs
        return round((min(5, self.config.epochs / 10) if epochs is None else epochs) * steps)

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        given = {"learning_rate": self._schedule(steps, num_replicas)}
        if config.optimizer == "sgd":  # its weight decay is in the loss
            return make_optimizer(config, keras.optimizers.SGD, **given)
        make = functools.partial(decayed, OPTIMIZERS[config.optimizer])
        return make_optimizer(config, make, weight_decay=config.weight_decay, **given)

    def _schedule(self, steps, num_replicas):
        """Returns the learning rate by step, for so many steps an epoch."""
        config = self.config
        peak = config.learning_rate * config.batch_size * num_replicas / 256
        warmup = self.warmup(steps)
        if config.schedule == "step":
            epochs = config.decay_epochs or sorted({math.ceil(share * config.epochs) for share in DECAYS})
            return StepDecay(peak, warmup, [epoch * steps for epoch in epochs])
        falling = max(1, config.epochs * steps - warmup)
        rise = dict(initial_learning_rate=0.0, warmup_target=peak, warmup_steps=warmup) if warmup else {}
        return keras.optimizers.schedules.CosineDecay(**{"initial_learning_rate": peak, "decay_steps": falling, **rise})

    def make_loss(self):
        smoothing = self.config.label_smoothing
        if self.config.mixes:
            return keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing, dtype="float32")
        return LabelSmoothedCrossentropy(smoothing)

    def make_metrics(self):
        return make_metrics(len(self.class_names), self.config.mixes)

    def throughput(self, batches):
        return lambda: len(batches) * batches.batch_size, "images_per_second"

    def shown(self, model, batches, validation):
        path = self.run.folder / "damaged.txt"
        return [LambdaCallback(on_epoch_end=lambda epoch, logs: report_damaged(path, batches, validation))]

    def load_tests(self, files=None):
        config, own = self.config, self.run.read_config()
        if any(getattr(config, name) != getattr(own, name) for name in (*config.SOURCES, "validation_split")):
            config = config.changed({"validation": config.validation_split})  # other images are all for the test
        tests = {config.validation_split: load_validation(config, self.class_names)}
        is_own = config.validation_split == own.validation_split
        return self.run.name_results(self.config, tests, (*self.config.SOURCES, "resized") if is_own else ("resized",))

    def evaluate(self, model, tests):
        for name, source in tests.items():
            batches = self.validation_batches(source)
            evaluate(model, batches, self.run.results / name, self.class_names, self.config.quiet)

    def next_commands(self):
        return [f"python -m recipes.imagenet classify {self.config.run} FILE"]

    def export(self, model, folder, tensors_folder):
        config, names = self.config, self.class_names
        path = export_image_classifier(model, self._pixels, names, folder, run=config.run)
        export_pixel_classifier(model, names, tensors_folder, run=config.run)
        if samples := self._samples():
            found = smoke_test(path, SMOKE_TEST, [base64.b64encode(file).decode() for *_, file in samples])
            for (name, label, _), label_found, score in zip(samples, *found, strict=True):
                print(f"  {name}: {label_found} ({score:.3f}), labelled {names[label]}")

    def _samples(self):
        """`(name, label, bytes of the file)` of a few validation images that can be read."""
        number, source = self.config.samples, self.data and self.data.validation
        samples = []
        if source is None or not number:
            return samples
        for index in range(0, len(source), max(1, len(source) // number))[:number]:
            try:
                data, label = source.load(tf.constant(index, tf.int64))
                decode(data)
            except tf.errors.OpError:  # reported already
                continue
            samples.append((source.name(index), int(label), data.numpy()))
        return samples
