"""Multi-head attention for Keras whose heads work together.

Nothing is imported with the package itself, so that it is quick and TensorFlow can be set up first. Import parts by
name; what is imported is known to `keras.saving.load_model`.
"""

__version__ = "0.1.0"
