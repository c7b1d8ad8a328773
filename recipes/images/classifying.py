"""Classes of single image files."""

from keras_headattn.serving import ImageClassifier
from recipes.images.data import evaluation_pixels


def classify(classifier, config, class_names, files, top=1, batch_size=32):
    """Yields the name of each file and texts of its likeliest classes, with their probabilities.

    Args:
        classifier: the finished network, from pixels to logits.
        config: `ImageNetConfig`.
        class_names: list of str.
        files: list of paths.
        top: int, how many classes.
        batch_size: int, files read at a time.
    """
    classes_of = ImageClassifier(classifier, evaluation_pixels(config), class_names, top)
    for begin in range(0, len(files), batch_size):
        names = files[begin : begin + batch_size]
        for name, image in zip(names, classes_of(names), strict=True):
            if image is None:
                yield name, ["not an image that can be read"]
            else:
                yield name, [f"{label} {score:.3f}" for label, score in zip(image.classes, image.scores, strict=True)]
