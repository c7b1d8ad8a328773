"""Pre-training for the synthetic tasks, in one go: an encoder fills in masked words of sentences in memory."""

import keras

from keras_headattn.data import pad_ids
from keras_headattn.models import MaskedLM
from keras_headattn.optimizers import AdamWeightDecay, LinearDecay
from keras_headattn.training import Progress
from recipes.engine.encoders import MaskedLMTrainer

BATCH_SIZE = 64


def fill_in(encoder, rows, tokenizer, epochs, learning_rate, seed=0, quiet=False):
    """Trains a `Bert` to fill in masked tokens; returns the share that was found in the last epoch.

    The learning rate rises over a tenth of the steps to `learning_rate`, and falls to 0. `rows` are int arrays with
    special tokens.
    """
    if encoder.pooler is not None:
        encoder.pooler.trainable = False  # it is not used here
    special = (tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id)
    trainer = MaskedLMTrainer(MaskedLM(encoder), tokenizer.mask_id, special, seed=seed)
    trainer.build()
    steps = -(-len(rows) // BATCH_SIZE) * epochs
    schedule = LinearDecay(learning_rate, max(1, steps // 10), steps + 1)
    trainer.compile(AdamWeightDecay(schedule, global_clipnorm=1.0))
    ids = pad_ids(rows, len(rows), max(map(len, rows)), tokenizer.pad_id)
    callbacks = [] if quiet else [Progress()]
    keras.utils.set_random_seed(seed)  # of the order of the rows
    history = trainer.fit(ids, batch_size=BATCH_SIZE, epochs=epochs, verbose=0, callbacks=callbacks)
    return history.history["masked_accuracy"][-1]
