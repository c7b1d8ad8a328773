"""Pre-training of encoders."""
