"""Imports TensorFlow, or says how to install it, before modules that need it on every backend."""

from keras_headattn._optional import optional_import

tensorflow = optional_import("tensorflow")
