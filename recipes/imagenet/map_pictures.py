"""Attention in finished runs of image classification: the commands of `recipes.attention_maps`."""

import dataclasses
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.analysis import attention_maps, draw_image_maps
from keras_headattn.layers import AugmentedConv2D
from keras_headattn.models import ViT
from keras_headattn.training import Progress
from keras_headattn.utils import flatten_layers
from recipes.engine.finished import by_title, chosen_layers, indices, new_path, save
from recipes.engine.progress import progress_bar
from recipes.imagenet.__main__ import RECIPE
from recipes.imagenet.data import evaluation_pixels, read_corpora, validation_batches
from recipes.imagenet.map_classifier import make_map_classifier

HIGHEST, LOWEST = 0.05, 0.0001  # learning rates


def image(options):
    """Draws what one pixel attends to, of runs side by side."""
    for name in options.files:
        if not pathlib.Path(name).is_file():
            raise FileNotFoundError(f"There is no such file. Received: {name}")
    runs = by_title(options.runs, _image_run)
    models = [(title, run.load_model(), run.read_config()) for title, run in runs.items()]
    for name in options.files:
        maps, sizes = {}, {}
        for title, model, config in models:
            pixels = evaluation_pixels(config)(tf.io.read_file(name))
            recorded, size_of = attention_maps(model, pixels[None]), map_sizes(model)
            for layer_number, path in chosen_layers(recorded, options.layers).items():
                name_of_map = f"{title}\nlayer {layer_number}"
                maps[name_of_map] = of_pixels(recorded[path].weights, size_of[path])[0]
                sizes[name_of_map] = size_of[path]
        most = max(map(len, maps.values()))
        heads = options.heads and indices("--heads", options.heads, most)
        # Models standardise their inputs, so pixels are those of the image.
        title = f"What the marked pixel attends to, {pathlib.Path(name).name}"
        figure = draw_image_maps(pixels.numpy() / 255, maps, sizes, options.pixel, heads, title)
        output = pathlib.Path(options.output)
        if len(options.files) > 1:
            output = new_path(output.with_stem(f"{output.stem}-{pathlib.Path(name).stem}"))
        save(figure, output)


def classify(options):
    """Measures how well a network tells classes from the maps of layers."""
    for title, run in by_title(options.runs, _image_run).items():
        accuracies = map_accuracy(
            run, lambda maps: chosen_layers(maps, options.layers), options.epochs, options.filters, options.images
        )
        for layer_number, accuracy in accuracies.items():
            print(f"{title}, layer {layer_number}: {accuracy:.2%}", flush=True)


def _image_run(folder):
    run = RECIPE.run_of(folder)
    if run.read_config().attention == "none":
        raise ValueError(
            f"A run without attention has no maps. Give one with attention. Received: {folder}, attention=none"
        )
    return run


def map_sizes(model):
    """Height and width that each attention layer sees, by its path; of a ViT those of its patches."""
    sizes = {}
    for layer in flatten_layers(model):
        if isinstance(layer, AugmentedConv2D):
            sizes[layer.attention.path] = layer.map_size
        elif isinstance(layer, ViT):
            sizes |= {block.attention.path: layer.grid for block in layer.blocks}
    return sizes


def of_pixels(weights, size):
    """Returns maps `(B, heads, n, n)` without a class token before the `n` pixels or patches."""
    count = size[0] * size[1]
    return weights[..., -count:, -count:]


def map_accuracy(run, choose, epochs=30, filters=256, max_images=None):
    """Trains a classifier of maps for each of some layers, and returns its accuracy on the validation images.

    By SGD with a learning rate that falls from 0.05 to 0.0001 as a cosine (Wang et al. 2021, "Evolving attention",
    appendix B.1).

    Args:
        run: `Run` of a finished network with attention.
        choose: function from all layers' paths to a dictionary of those to look at; its keys are those of the result.
        epochs: passes over the maps.
        filters: width of the classifier's first stage.
        max_images: use only so many images of each split; `None`: all.
    """
    config = run.read_config()
    if max_images is not None:
        config = dataclasses.replace(config, max_images=min(max_images, config.max_images or max_images))
    model = run.load_model()
    images = read_corpora(config)
    known, labels = _maps(model, validation_batches(config, images.train), choose)
    held_out, held_out_labels = _maps(model, validation_batches(config, images.validation), choose)
    accuracies = {}
    for key, maps in known.items():
        print(f"{run.folder.name}, layer {key}: training a classifier of its maps")
        classifier = make_map_classifier(maps.shape[1:], len(images.train.class_names), filters)
        steps = epochs * -(-len(maps) // 32)
        rate = keras.optimizers.schedules.CosineDecay(HIGHEST, steps, alpha=LOWEST / HIGHEST)
        classifier.compile(
            keras.optimizers.SGD(rate, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"]
        )
        classifier.fit(maps, labels, batch_size=32, epochs=epochs, callbacks=[Progress()])
        accuracies[key] = classifier.evaluate(held_out[key], held_out_labels, verbose=0, return_dict=True)["accuracy"]
    return accuracies


def _maps(model, batches, choose):
    """Attention of the middle pixel, `(N, height, width, heads)` for each layer, and the labels `(N,)`."""
    maps_by_layer, labels, sizes = {}, [], map_sizes(model)
    progress = progress_bar("Maps of the images", len(batches))
    for pixels, batch_labels, counts in batches.dataset():
        real = np.asarray(counts) > 0  # the last batch is padded
        recorded = attention_maps(model, pixels, training=False)
        for key, path in choose(recorded).items():
            height, width = sizes[path]
            weights = of_pixels(recorded[path].weights, sizes[path])
            maps = weights[:, :, height // 2 * width + width // 2]
            maps = maps.reshape(*maps.shape[:2], height, width).transpose(0, 2, 3, 1)
            maps_by_layer.setdefault(key, []).append(maps[real])
        labels.append(np.asarray(batch_labels)[real])
        progress(len(labels))
    return {key: np.concatenate(maps) for key, maps in maps_by_layer.items()}, np.concatenate(labels)
