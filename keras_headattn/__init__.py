"""Multi-head attention for Keras: every published way to make heads work together.

Nothing is imported with the package itself, so that it is quick and TensorFlow can be set up first. Import parts by
name; `import keras_headattn.models` makes all layers and models known to `keras.saving.load_model`.
"""

__version__ = "0.1.0"
