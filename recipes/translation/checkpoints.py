"""What is kept of each epoch, when training has ended, and the final weights."""

import json

import keras

from keras_headattn.files import write_atomically


class SaveEpochs(keras.callbacks.Callback):
    """Keeps the logs of all epochs, and the weights that the final ones are made of.

    Args:
        run: `Run`.
        model: what the weights are of.
        keep: how many of the last epochs' weights to keep. The best one is always kept.
    """

    def __init__(self, run, model, keep):
        super().__init__()
        self.run = run
        self.trained = model
        self.keep = keep

    def on_epoch_end(self, epoch, logs=None):
        done = epoch + 1
        # An epoch that was interrupted after this point is done again, to the same end.
        history = [*self.run.history()[:epoch], {name: float(value) for name, value in (logs or {}).items()}]
        self.run.save_model(self.trained, weights_of(self.run, done))
        write_atomically(self.run.folder / "history.json", json.dumps(history, indent=1).encode())
        averaged = range(done - self.keep + 1, done + 1)
        kept = {weights_of(self.run, n) for n in (best_epoch(history), *averaged)}
        for path in self.run.checkpoints.glob("*.weights.h5"):
            if path not in kept:
                path.unlink()


class StopWhenStalled(keras.callbacks.Callback):
    """Ends training when the validation loss gets no better, by all epochs of the run.

    `Resume` is not to see it: with more patience the run may go on.

    Args:
        run: `Run`.
        patience: as `has_stalled` takes it.
    """

    def __init__(self, run, patience):
        super().__init__()
        self.run = run
        self.patience = patience

    def on_epoch_end(self, epoch, logs=None):
        if has_stalled(self.run.history(), self.patience):
            print(f"\nNo better validation loss for {self.patience} epochs: training ends.")
            self.model.stop_training = True


def weights_of(run, epoch):
    """File of the weights after `epoch` (1 = the first)."""
    return run.checkpoints / f"epoch-{epoch:03d}.weights.h5"


def best_epoch(history):
    """The epoch (1 = the first) with the lowest validation loss."""
    return 1 + min(range(len(history)), key=lambda i: history[i]["val_loss"])


def has_stalled(history, patience):
    """Whether the last `patience` epochs (`None`: any number) brought no better validation loss.

    >>> has_stalled([{"val_loss": 2.0}, {"val_loss": 3.0}], patience=1)
    True
    """
    return bool(history) and patience is not None and len(history) - best_epoch(history) >= patience


def finish(run, model, average):
    """Gives `model` its final weights and saves it: the mean of the last `average` epochs', or the best epoch's."""
    history = run.history()
    epochs = [best_epoch(history)]
    if average > 1:
        epochs = range(max(1, len(history) - average + 1), len(history) + 1)
    total = None
    for epoch in epochs:
        model.load_weights(weights_of(run, epoch))
        weights = model.get_weights()
        total = weights if total is None else [a + b for a, b in zip(total, weights, strict=True)]
    model.set_weights([array / len(epochs) for array in total])
    run.save_model(model, run.model)
    return list(epochs)
