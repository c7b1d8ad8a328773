"""Labelled texts and pairs of texts, as several recipes read, score and explain them."""
