"""What is saved after each epoch, when training has ended, and the final weights."""

import json

import keras

from keras_headattn.files import write_atomically


class SaveEpochs(keras.callbacks.Callback):
    """Saves after each epoch, so that the same command continues there, and keeps weights for the end.

    It also ends training early. Keras's `EarlyStopping` would forget the epochs before an interruption.

    Args:
        run: `Run`.
        model: what the weights are of; the trainer is saved as a whole besides.
        keep: how many of the last epochs' weights to keep. The best one is always kept.
        patience: as `has_stalled` takes it.
    """

    def __init__(self, run, model, keep, patience=None):
        super().__init__()
        self.run = run
        self.trained = model
        self.keep = keep
        self.patience = patience
        self.history = run.state()["history"]

    def on_epoch_end(self, epoch, logs=None):
        done = epoch + 1
        self.history = [*self.history[:epoch], {name: float(value) for name, value in (logs or {}).items()}]
        self.run.save_model(self.trained, weights_of(self.run, done))
        self.run.save_model(self.model, trainer_of(self.run, done))
        # The epoch counts from when its number is here; of the files above only those it names are read.
        _write_json(self.run.checkpoints / "state.json", {"epoch": done, "history": self.history})
        _write_json(self.run.folder / "history.json", self.history)
        averaged = range(done - self.keep + 1, done + 1)
        kept = {trainer_of(self.run, done), *(weights_of(self.run, n) for n in (best_epoch(self.history), *averaged))}
        for path in self.run.checkpoints.iterdir():
            if path.suffix in (".keras", ".h5") and path not in kept:
                path.unlink()
        if has_stalled(self.history, self.patience):
            print(f"\nNo better validation loss for {self.patience} epochs: training ends.")
            self.model.stop_training = True


def _write_json(path, values):
    write_atomically(path, json.dumps(values, indent=1).encode())


def trainer_of(run, epoch):
    """File of the trainer, with its optimizer, after `epoch` (1 = the first)."""
    return run.checkpoints / f"last-{epoch:03d}.keras"


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
    state = run.state()
    if average == 1:
        epochs = [best_epoch(state["history"])]
    else:
        epochs = range(max(1, state["epoch"] - average + 1), state["epoch"] + 1)
    total = None
    for epoch in epochs:
        model.load_weights(weights_of(run, epoch))
        weights = model.get_weights()
        total = weights if total is None else [a + b for a, b in zip(total, weights, strict=True)]
    model.set_weights([array / len(epochs) for array in total])
    run.save_model(model, run.model)
    return list(epochs)
