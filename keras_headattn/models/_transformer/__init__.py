"""Encoder-decoders: the Transformer and T5."""
