"""State and checkpoints of a resumable training run."""
