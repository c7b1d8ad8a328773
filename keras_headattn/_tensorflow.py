"""Imports TensorFlow, or says how to install it: first of all in modules that need it on every backend."""

from headattn_io.optional import optional_import

tensorflow = optional_import("tensorflow")
