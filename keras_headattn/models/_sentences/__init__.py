"""Encoders of sentences, and classifiers around them."""
