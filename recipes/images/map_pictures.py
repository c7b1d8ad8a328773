"""Attention in finished runs of image classification: the commands of `recipes.attention_maps`."""

import pathlib

import tensorflow as tf

from keras_headattn.analysis import attention_maps, draw_image_maps
from recipes.engine.finished import by_title, chosen_layers, indices, save
from recipes.imagenet import RECIPE
from recipes.images.data import evaluation_pixels
from recipes.images.map_accuracy import map_accuracy, map_sizes


def image(options):
    """Draws what one pixel attends to, of runs side by side."""
    for name in options.files:
        if not pathlib.Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}")
    runs = by_title(options.runs, _image_run)
    models = [(title, run.load_model(), evaluation_pixels(run.config())) for title, run in runs.items()]
    for name in options.files:
        maps, sizes = {}, {}
        for title, model, pixels_of in models:
            pixels = pixels_of(tf.io.read_file(name))
            recorded, size_of = attention_maps(model, pixels[None]), map_sizes(model)
            for number, path in chosen_layers(recorded, options.layers).items():
                maps[f"{title}\nlayer {number}"] = recorded[path].weights[0]
                sizes[f"{title}\nlayer {number}"] = size_of[path]
        most = max(map(len, maps.values()))
        heads = options.heads and indices("--heads", options.heads, most)
        # The models standardise what they are given: pixels are those of the image.
        title = f"What the marked pixel attends to, {pathlib.Path(name).name}"
        figure = draw_image_maps(pixels.numpy() / 255, maps, sizes, options.pixel, heads, title)
        output = pathlib.Path(options.output)
        if len(options.files) > 1:
            output = output.with_stem(f"{output.stem}-{pathlib.Path(name).stem}")
        save(figure, output)


def classify(options):
    """How well a network tells classes from the maps of layers."""
    for title, run in by_title(options.runs, _image_run).items():
        accuracies = map_accuracy(
            run, lambda maps: chosen_layers(maps, options.layers), options.epochs, options.filters, options.images
        )
        for number, accuracy in accuracies.items():
            print(f"{title}, layer {number}: {accuracy:.2%}", flush=True)


def _image_run(folder):
    run = RECIPE.run_of(folder)
    if run.config().attention == "none":
        raise ValueError(f"{folder} is a run with --attention none: it has no maps. Give one with attention.")
    return run
