"""Sequences that are held out, and those of other text, with masks that are drawn once."""

import keras
import numpy as np
import tensorflow as tf

from recipes.engine.data import named_files
from recipes.pretrain.batches import COLUMNS
from recipes.pretrain.documents import Documents
from recipes.pretrain.records import packed_rows
from recipes.pretrain.settings import ENDING

MASKED_TOGETHER = 512
LEAST_SHARE = 10  # at most one of so many sequences is held out


class MaskedSequences:
    """Batches to evaluate a model on, with masks that are drawn once, without the model's own random numbers.

    `rows` are `"token_ids"` and `"segment_ids"`, int32 `(N, L)`. The last batch has what is left.

    Attributes:
        model: `MaskedLMPretraining`, which draws the masks. It must be set before `dataset()`.
        preprocess: as of `SequenceBatches`.
    """

    def __init__(self, rows, batch_size, model=None):
        self.rows = rows
        self.batch_size = batch_size
        self.model, self.preprocess = model, None

    def dataset(self):
        """Returns a `tf.data.Dataset` of the batches."""
        count = len(self.rows["token_ids"])
        parts = [
            self.model.draw_masks(
                {name: ids[begin : begin + MASKED_TOGETHER] for name, ids in self.rows.items()}, training=False
            )
            for begin in range(0, count, MASKED_TOGETHER)
        ]
        drawn = keras.tree.map_structure(lambda *some: np.concatenate([np.asarray(array) for array in some]), *parts)
        dataset = tf.data.Dataset.from_tensor_slices(drawn).batch(self.batch_size)
        return dataset if self.preprocess is None else dataset.map(self.preprocess)


def number_held_out(records, config):
    """Returns the number of sequences held out: those wanted, at most a tenth, and full batches if there is one."""
    count = max(1, min(config.validation_sequences, records.manifest["examples"] // LEAST_SHARE))
    return max(1, count // config.batch_size) * min(count, config.batch_size)


def read_tests(config, tokenizer, files):
    """Reads text files as test sets: dictionary of their names to what `MaskedSequences` takes."""
    tests = {}
    for name, paths in named_files(files, ENDING).items():
        documents = Documents(paths, config.whole_files)
        lines = list(documents)
        if documents.num_replaced:
            print(f"{name}: {documents.num_replaced:,} lines had bytes that are not UTF-8, which were left out.")
        rows = list(packed_rows(lines, tokenizer, config.max_length, np.random.default_rng(config.packing_seed)))
        if not rows:
            raise ValueError(f"A test set must have text. Received: {', '.join(paths)}")
        tests[name] = {name: np.stack([row[of] for row in rows]).astype("int32") for name, of in COLUMNS.items()}
    return tests
