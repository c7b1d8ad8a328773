"""Callbacks, and what they write for TensorBoard."""
