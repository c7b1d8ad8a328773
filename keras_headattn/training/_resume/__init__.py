"""Training that goes on where it was stopped: the state of a run, and its checkpoints."""
