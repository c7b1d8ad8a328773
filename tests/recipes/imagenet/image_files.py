"""Small image files for tests: their colour says which they are."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image


def pixels(number, height=12, width=10):
    """An image of one colour: red is 6 times the number, and green grows downwards."""
    image = np.zeros((height, width, 3), "uint8")
    image[..., 0] = 6 * number
    image[..., 1] = np.linspace(0, 255, height, dtype="uint8")[:, None]
    return image


def png(number, **size):
    return tf.io.encode_png(pixels(number, **size)).numpy()


def jpeg(number, **size):
    return tf.io.encode_jpeg(pixels(number, **size), quality=100, chroma_downsampling=False).numpy()


def webp(number, **size):
    file = io.BytesIO()
    Image.fromarray(pixels(number, **size)).save(file, "WEBP", lossless=True)
    return file.getvalue()


def number_of(image):
    """The number of the image that pixels are of."""
    return round(float(np.median(image[..., 0])) / 6)


def make_folder(folder, classes=("cat", "dog"), each=4, encode=png, ending=".png"):
    """A folder of class folders; images are numbered through. Returns the folder."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            number = label * each + i
            (folder / name / f"{number:02}{ending}").write_bytes(encode(number))
    return folder
