"""A recipe outside of `recipes`: data made by code, a subclass of `keras.Model`, and a metric that chooses epochs."""

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.data import LabelledBatches
from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import SentenceClassifier, TransformerEncoder
from keras_headattn.serving import save_signatures
from recipes.engine.config import option, settings
from recipes.engine.data import Corpora
from recipes.engine.modelling import column_trainer, make_attention, make_optimizer
from recipes.engine.recipe import Recipe
from recipes.engine.settings import Settings


@settings(run="runs/own", patience=1)
class OwnConfig(Settings):
    title = "data and model"

    select: str = option("val_right", "which epochs are better", ("val_loss", "val_right"))
    rows: int = option(8, "examples", at_least=4)


def train(config, session):
    attention = make_attention(config, 4, num_heads=2)
    with session(config) as run:
        data = run.read(lambda: Corpora(*(make(config.rows) for _ in range(2)), {"test": make(config.rows)}))
        batches, validation = (
            LabelledBatches(
                {"text": [ids for ids, _ in part]}, [label for _, label in part], 4, (4,), training=is_first
            )
            for is_first, part in ((True, data.train), (False, data.validation))
        )
        if run.is_unfinished():
            run.fit(
                batches,
                validation,
                lambda: SentenceClassifier(
                    TransformerEncoder(9, 4, intermediate_dim=8, num_layers=1, attention=attention),
                    2,
                    SelfAttentivePooling(1, 2),
                    mlp_dim=4,
                ),
                trainer=lambda model: column_trainer(["text"], lambda columns: model(columns["text"])),
                optimizer=lambda model: make_optimizer(config, keras.optimizers.Adam),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="right")],
                throughput=(lambda: config.rows, "examples_per_second"),
            )
        run.report(lambda model: score(run, model, data.tests))
        run.export(lambda model, folder: write(run, config, model, folder))
        run.close()


def make(rows):
    return [([1 + row % 3, 4 + row % 4], row % 2) for row in range(rows)]


def evaluate(run, config, files=None):
    score(run, run.load_model(), {"test": make(config.rows)})


def score(run, model, tests):
    for name, examples in tests.items():
        ids, labels = (np.array(column) for column in zip(*examples, strict=True))
        run.add_scores(name, {"right": (keras.ops.convert_to_numpy(model(ids)).argmax(-1) == labels).mean()})


def write(run, config, model, folder):
    ids = tf.TensorSpec((None, None), tf.int32, name="ids")
    save_signatures({"serving_default": (lambda ids: {"logits": model(ids)}, [ids])}, folder)


RECIPE = Recipe(name="own", doc=__doc__, settings=OwnConfig, train=train, evaluate=evaluate, write=write)

if __name__ == "__main__":
    RECIPE.main()
