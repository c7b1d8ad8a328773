"""Images per second and core of the image pipeline alone, and its memory for two sizes of data set.

    python -m benchmarks.images [--quick] [--images FOLDER]

Photographs are those below `--images`, otherwise JPEG files of blurred noise, 500 x 375 pixels. Each measurement runs
in its own process. Core seconds are processor time summed over threads, which other work disturbs little.
"""

import argparse
import functools
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import timing

SIZE = 224
ENDINGS = (".jpg", ".jpeg")
REPEATS = (400, 1600)


def make_photographs(folder, count=40):
    """Writes JPEG files of blurred noise, 500 x 375 pixels."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    for i in range(count):
        coarse = tf.image.resize(rng.uniform(0, 255, (24, 32, 3)), (375, 500), method="bicubic")
        noisy = coarse + rng.normal(0, 9, (375, 500, 3))
        pixels = tf.saturate_cast(noisy, tf.uint8)
        Path(folder, f"{i:03}.jpg").write_bytes(tf.io.encode_jpeg(pixels, quality=95).numpy())


def paths_of(folder, count):
    """Returns this many paths of images below the folder, repeated as needed."""
    walk = ((root, name) for root, _, names in os.walk(folder) for name in names)
    paths = sorted(os.path.join(root, name) for root, name in walk if name.lower().endswith(ENDINGS))
    if not paths:
        raise ValueError(f"There are no JPEG files. Received: images={folder}")
    return [paths[i % len(paths)] for i in range(count)]


def read(kind, folder, count):
    """Returns `(images, seconds, processor seconds)` of an epoch of batches."""
    from keras_headattn.data import central_crop
    from recipes.imagenet.augmentation import inception_crop
    from recipes.imagenet.batches import ImageBatches
    from recipes.imagenet.folders import ImageFiles

    source = ImageFiles(paths_of(folder, count), np.zeros(count), ["all"])
    preprocess = {
        "training: random crop, mirror": functools.partial(inception_crop, size=SIZE),
        "the same, with colours": functools.partial(inception_crop, size=SIZE, jitter=0.4),
        "evaluation: centre": functools.partial(central_crop, size=SIZE, resized=256),
    }[kind]
    batches = ImageBatches(source, 32, preprocess, training=kind != "evaluation: centre")
    dataset = batches.dataset()
    next(iter(dataset))
    start, used = time.perf_counter(), time.process_time()
    images = sum(len(batch[0]) for batch in dataset)
    assert not batches.num_damaged
    return images, time.perf_counter() - start, time.process_time() - used


def in_process(*arguments):
    """Returns the results of `read` and the peak memory in MB, in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, arguments)


def _measured(*arguments):
    timing.limit_threads(timing.cores())
    return *read(*arguments), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few images; writes nothing")
    parser.add_argument("--images", help="folder of JPEG files; none: made by code")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.images or made
        if not options.images:
            make_photographs(made)
        rows = []
        for kind in ("training: random crop, mirror", "the same, with colours", "evaluation: centre"):
            for count in (64, 128) if options.quick else REPEATS:
                images, seconds, used, memory = in_process(kind, folder, count)
                rows.append([kind, f"{count:,}", f"{images / used:,.0f}", f"{images / seconds:,.0f}", f"{memory:,.0f}"])
        paths = paths_of(folder, 1000)
        size = np.mean([os.path.getsize(path) for path in set(paths)]) / 1e3
        number_of_files = len(set(paths))
    timing.report(
        None if options.quick else "images",
        "# Speed and memory of the image pipeline",
        f"{number_of_files} JPEG files, {size:.0f} kB each in the mean, read again and again from the disk's cache; "
        f"{SIZE} x {SIZE} pixels in batches of 32; {timing.cores()} decoded at a time. A core's second is one of the "
        "processor's, summed over threads.",
        timing.table(["", "images", "images a core and second", "images a second", "peak memory, MB"], rows),
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
