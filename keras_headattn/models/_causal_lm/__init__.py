"""Decoder-only language models."""
