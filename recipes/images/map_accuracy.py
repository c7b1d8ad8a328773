"""How much of an image is left in what its middle pixel attends to."""

import dataclasses

import keras
import numpy as np

from keras_headattn._private import flatten_layers
from keras_headattn.analysis import attention_maps, make_map_classifier
from keras_headattn.layers import AugmentedConv2D
from keras_headattn.training import Progress
from recipes.engine.progress import progress_bar
from recipes.images.data import load_training, load_validation, validation_batches

HIGHEST, LOWEST = 0.05, 0.0001  # learning rates


def map_sizes(model):
    """Height and width of what each attention layer sees, by its path."""
    layers = [layer for layer in flatten_layers(model) if isinstance(layer, AugmentedConv2D)]
    return {layer.attention.path: layer.map_size for layer in layers}


def map_accuracy(run, choose, epochs=30, filters=256, max_images=None):
    """Trains a classifier for each of some layers, on maps of the run's training images.

    By SGD with a learning rate that falls from 0.05 to 0.0001 as a cosine (Wang et al. 2021, "Evolving attention",
    appendix B.1).

    Args:
        run: `Run` of a finished network with attention.
        choose: function from all layers' paths to a dictionary of those to look at.
        epochs: passes over the maps.
        filters: width of the classifier's first stage.
        max_images: use only so many images of each split; `None`: all.

    Returns:
        Dictionary of the keys of `choose` to the accuracy on the validation images.
    """
    config = run.config()
    if max_images is not None:
        config = dataclasses.replace(config, max_images=min(max_images, config.max_images or max_images))
    model = run.load_model()
    training = load_training(config)
    validation = load_validation(config, training.class_names)
    known, labels = _maps(model, validation_batches(config, training, 1), choose)
    held_out, held_out_labels = _maps(model, validation_batches(config, validation, 1), choose)
    accuracies = {}
    for key, maps in known.items():
        print(f"{run.folder.name}, layer {key}: training a classifier of its maps")
        classifier = make_map_classifier(maps.shape[1:], len(training.class_names), filters)
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
    found, labels, sizes = {}, [], map_sizes(model)
    progress = progress_bar("Maps of the images", len(batches))
    for pixels, batch_labels, counts in batches.dataset():
        real = np.asarray(counts) > 0  # the last batch is filled up
        recorded = attention_maps(model, pixels, training=False)
        for key, path in choose(recorded).items():
            height, width = sizes[path]
            maps = recorded[path].weights[:, :, height // 2 * width + width // 2]
            maps = maps.reshape(*maps.shape[:2], height, width).transpose(0, 2, 3, 1)
            found.setdefault(key, []).append(maps[real])
        labels.append(np.asarray(batch_labels)[real])
        progress(len(labels))
    return {key: np.concatenate(maps) for key, maps in found.items()}, np.concatenate(labels)
