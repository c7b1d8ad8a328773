"""Batches of images and labels, decoded in parallel, in an order that can be resumed."""

import functools
import math
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_headattn._tensorflow import generated
from recipes.imagenet.augmentation import decode


class ImageSource:
    """Labelled images, which `ImageBatches` reads one by one: base class of all sources of images.

    A source has a length, and overrides `name` and `load`.

    Args:
        class_names: list of str.
        faults: dict of str to str, the faults of damaged files, as far as they are known without decoding.
        left_out: sequence of str, sentences on files that are no part of the source.
    """

    def __init__(self, class_names: Sequence[str], faults: dict[str, str] | None = None, left_out: Sequence[str] = ()):
        self.class_names = list(class_names)
        self.faults = {} if faults is None else faults
        self.left_out = tuple(left_out)

    def __len__(self) -> int:
        raise NotImplementedError

    def name(self, index: int) -> str:
        """Returns the name of an image in messages, such as its path."""
        raise NotImplementedError

    def paths(self) -> list[str]:
        """Returns the paths of the files that it reads."""
        return []

    def load(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the bytes of an image file and its label, scalar tensors, string and int32, by an int64 index.

        It is an error if the image cannot be read.
        """
        raise NotImplementedError

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the order of an epoch: all indices, shuffled, int64 `(N,)`."""
        return rng.permutation(len(self))


class ImageBatches:
    """Batches of images for `fit` and `evaluate`, of which `dataset()` makes a `tf.data.Dataset`.

    To train, all batches of an epoch are full: the rest of the images does not come in this epoch, and what damaged
    images leave free is taken by those at the beginning of the order. Order and augmentation are a function of `(seed,
    epoch)` and the image alone, so that training can be resumed exactly: `keras_headattn.training.Resume` sets `epoch`.
    To evaluate, each image comes once, in order, and the last batches are filled up with black ones of weight 0. The
    other weights are all the same, so that the mean of the batches' losses is that over the images: give `compile` its
    metrics as `weighted_metrics`. (Images that are damaged count there as a loss of 0.)

    Images that cannot be read or decoded are left out, and collected in `damaged`. Memory holds a few batches, and
    where each image is, however large the data set.

    Each item is a tuple `(images, labels)`: `(B, S, S, 3)` of what `preprocess` returns, and int32 `(B,)`, or float32
    `(B, num_classes)` if they are one-hot; to evaluate `(images, labels, weights)`, the last float32 `(B,)`.

    Args:
        source: `ImageSource`, such as `ImageFiles` or `ImageRecords`.
        batch_size: int, B.
        preprocess: function of the bytes of an image file, a scalar string tensor, and when training of `seed`,
            int64 `(2,)`; returns pixels, `(S, S, 3)`.
        training: bool. Default False.
        seed: int. Default 0.
        parallel: int, images decoded at the same time. Default `None`: one a core.
        one_hot: True for one-hot labels. Default False.
        mix: function of the images and labels of a batch to train on, and of a seed, int64 `(2,)`, which is that of its
            first image; returns images and labels. Default `None`.
    """

    def __init__(
        self,
        source: ImageSource,
        batch_size: int,
        preprocess: Callable[..., tf.Tensor],
        training: bool = False,
        seed: int = 0,
        parallel: int | None = None,
        one_hot: bool = False,
        mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
    ):
        if training and len(source) < batch_size:
            raise ValueError(
                f"A batch must not be larger than the data set of {len(source)} images. "
                f"Received: batch_size={batch_size}"
            )
        self.source = source
        self.batch_size = batch_size
        self.preprocess = preprocess
        self.training = training
        self.seed = seed
        self.parallel = parallel or len(os.sched_getaffinity(0))
        self.one_hot = one_hot
        self.mix = mix if training else None
        self.epoch = 0
        self._damaged = set()

    def __len__(self):
        """Returns the number of batches of an epoch."""
        batches = len(self.source) / self.batch_size
        return int(batches) if self.training else math.ceil(batches)

    @property
    def num_damaged(self) -> int:
        """Number of images that could not be read so far."""
        return len(self._damaged)

    @property
    def damaged(self) -> dict[str, str]:
        """Faults by the names of images and files that could not be read so far."""
        faults = {self.source.name(index): self._fault(index) for index in sorted(self._damaged)}
        return self.source.faults | faults

    def dataset(self) -> tf.data.Dataset:
        """Returns a `tf.data.Dataset` of the batches of the `epoch` that is set when it is gone through."""
        order = tf.TensorSpec((len(self.source),), tf.int64)
        dataset = generated(self._order, (order, tf.TensorSpec((), tf.int64))).flat_map(self._images_of_epoch)
        filled = dataset.repeat() if self.training else self._fill_up(dataset)
        batches = filled.batch(self.batch_size, drop_remainder=True).take(len(self))
        if self.one_hot or self.mix:
            batches = batches.map(self._finish, num_parallel_calls=self.parallel)
        return batches.apply(tf.data.experimental.assert_cardinality(len(self))).prefetch(2)

    def _finish(self, images, labels, *others):
        if self.one_hot:
            labels = tf.one_hot(labels, len(self.source.class_names))
        return self.mix(images, labels, seed=others[0][0]) if self.mix else (images, labels, *others)

    def _fill_up(self, images):
        weight = len(self) * self.batch_size / len(self.source)
        blank = [tf.zeros(spec.shape, spec.dtype) for spec in images.element_spec]
        weighted = images.map(lambda image, label: (image, label, weight))
        return weighted.concatenate(tf.data.Dataset.from_tensors((*blank, 0.0)).repeat())

    def _order(self):
        count = len(self.source)
        rng = np.random.default_rng([self.seed, self.epoch])
        yield self.source.order(rng) if self.training else np.arange(count), self.epoch

    @tf.autograph.experimental.do_not_convert
    def summary(self) -> str:
        """Returns a line: steps and images of an epoch."""
        return f"{len(self):,} steps of {self.batch_size} images an epoch"

    def _images_of_epoch(self, order, epoch):
        load = functools.partial(self._load, seed=self.seed * 2**32 + epoch)
        images = (
            tf.data.Dataset.from_tensor_slices(order)
            .enumerate()
            .map(load, num_parallel_calls=self.parallel)
            .ignore_errors(log_warning=False)
        )
        # A gap in the positions shows that images are missing; one more at the end shows it for the last ones.
        end = tuple(tf.zeros(spec.shape, spec.dtype) for spec in images.element_spec[1:])
        images = images.concatenate(tf.data.Dataset.from_tensors((tf.size(order, tf.int64), *end)))
        noted = images.scan(tf.constant(0, tf.int64), functools.partial(self._note_gap, order))
        return noted.filter(lambda position, *_: position < order.shape[0]).map(lambda _, *item: item)

    def _load(self, position, index, seed):
        data, label = self.source.load(index)
        seed = tf.stack([seed, index])
        image = self.preprocess(data, seed=seed) if self.training else self.preprocess(data)
        return (position, image, label, seed) if self.mix else (position, image, label)

    def _note_gap(self, order, expected, item):
        position = item[0]
        noted = tf.cond(
            position > expected,
            lambda: tf.numpy_function(self._note, [order[expected:position]], tf.int64),
            lambda: tf.constant(0, tf.int64),
        )
        with tf.control_dependencies([noted]):
            return tf.identity(position) + 1, item

    def _note(self, indices):
        self._damaged.update(indices.tolist())
        if len(self._damaged) == len(self.source):
            name = self.source.name(int(indices[0]))
            raise ValueError(f"None of the {len(self.source)} images can be read. Received: {name} and others")
        return np.int64(len(indices))

    def _fault(self, index):
        """Reads an image again, for the message of the error."""
        try:
            decode(self.source.load(tf.constant(index, tf.int64))[0])
        except tf.errors.OpError as error:
            return str(error.message).split("} ")[-1].partition(" [Op:")[0].strip().partition("\n")[0]
        return "it could be read later"


class Subset(ImageSource):
    """`number` images of a source, chosen at random; with `others` all images but these."""

    def __init__(self, source: ImageSource, number: int, seed: int = 0, others: bool = False):
        super().__init__(source.class_names, source.faults, source.left_out)
        self.source = source
        order = np.random.default_rng(seed).permutation(len(source))
        self._indices = np.sort(order[number:] if others else order[:number])

    def __len__(self):
        return len(self._indices)

    def name(self, index: int) -> str:
        return self.source.name(int(self._indices[index]))

    def paths(self) -> list[str]:
        return self.source.paths()

    def load(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.source.load(tf.gather(tf.constant(self._indices, tf.int64), index))
