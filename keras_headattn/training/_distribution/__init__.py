"""Training on many devices and workers."""
