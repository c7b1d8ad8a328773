"""What is kept of each epoch, when training has ended, and the final weights."""

import json

import keras

from keras_headattn.files import write_atomically
from keras_headattn.training import average_weights, gather


class SaveEpochs(keras.callbacks.Callback):
    """Keeps the logs of all epochs, and the weights that the final ones are made of.

    Args:
        run: `Run`.
        model: what the weights are of.
        average: how many epochs the final weights are the mean of. Theirs are kept, and always the best one's.
        average_of: which, as `final_epochs` takes it.
    """

    def __init__(self, run, model, average, average_of="last"):
        super().__init__()
        self.run = run
        self.trained = model
        self.average = average
        self.average_of = average_of

    def on_epoch_end(self, epoch, logs=None):
        done = epoch + 1
        history = [*self.run.history()[:epoch], {name: float(value) for name, value in (logs or {}).items()}]
        self.run.save_model(self.trained, weights_of(self.run, done))
        write_atomically(self.run.folder / "history.json", json.dumps(history, indent=1).encode())
        # An epoch that is interrupted after this point is done again, on GPUs perhaps to a slightly other end.
        kept = set()
        for known in filter(None, (history, history[:-1])):
            epochs = best_epoch(known), *final_epochs(known, self.average, self.average_of)
            kept |= {weights_of(self.run, n) for n in epochs}
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
        stalled = has_stalled(self.run.history(), self.patience)
        if gather([stalled], self.model.distribute_strategy).any():  # workers may see the file at different times
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


def final_epochs(history, average, average_of="last"):
    """The epochs (1 = the first) whose mean the final weights are.

    Args:
        history: list of the logs of all epochs.
        average: how many; 1: the best by validation loss.
        average_of: `"last"`, or `"best"` by validation loss.

    >>> final_epochs([{"val_loss": 1.0}, {"val_loss": 3.0}, {"val_loss": 2.0}], 2, "best")
    [1, 3]
    """
    epochs = list(range(1, len(history) + 1))
    if average > 1 and average_of == "last":
        return epochs[-average:]
    return sorted(sorted(epochs, key=lambda epoch: history[epoch - 1]["val_loss"])[:average])


def finish(run, model, average, average_of="last"):
    """Gives `model` its final weights, the mean of those of `final_epochs`, and saves it."""
    epochs = final_epochs(run.history(), average, average_of)
    average_weights(model, [weights_of(run, epoch) for epoch in epochs])
    run.save_model(model, run.model)
    return epochs
