"""BERT, its heads, and pre-training of both."""
