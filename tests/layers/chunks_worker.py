"""Prints the memory of training steps on sequences of unknown length, whole maps and chunks of queries."""

import json
import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its allocator keeps what is freed

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_headattn.data import LabelledBatches
from keras_headattn.layers import TalkingHeadsAttention
from recipes.classify.modelling import make_classifier
from recipes.classify.settings import ClassifyConfig
from recipes.engine.modelling import column_trainer

HEADS, SHORT, LONG = 4, 64, 2048


def of_function(chunk):
    """A graph with an axis of unknown length."""
    layer = TalkingHeadsAttention(HEADS, 8, query_chunk_size=chunk)
    layer.build((1, LONG, 16), (1, LONG, 16))

    @tf.function(input_signature=[tf.TensorSpec((1, None, 16))], autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, x, training=True) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_weights])

    return lambda: step(tf.ones((1, LONG, 16)))


def of_fit(chunk):
    """A dataset of several lengths."""
    inputs = keras.Input((None, 16))
    model = keras.Model(inputs, TalkingHeadsAttention(HEADS, 8, query_chunk_size=chunk)(inputs, inputs))
    model.compile("sgd", "mse", jit_compile=False)
    arrays = [np.ones((1, length, 16), "float32") for length in (SHORT, LONG)]
    spec = tf.TensorSpec((1, None, 16))
    dataset = tf.data.Dataset.from_generator(lambda: ((x, x) for x in arrays), output_signature=(spec, spec))
    return lambda: model.fit(dataset, verbose=0)


def of_recipe(chunk):
    """A recipe's model and its batches of two buckets."""
    arguments = {"query_chunk_size": chunk}
    sizes = dict(num_layers=1, embedding_dim=16, hidden_dim=16, mlp_dim=16, factor_dim=8)
    config = ClassifyConfig(
        encoder="transformer",
        attention="talking_heads",
        attention_arguments=arguments,
        model_arguments=sizes,
        max_length=LONG,
    )
    columns = {"text": [np.ones(length, "int32") for length in (SHORT, LONG)]}
    batches = LabelledBatches(columns, [0, 1], batch_size=1, bucket_lengths=(SHORT, LONG), training=True)
    model = make_classifier(config, 8, 2)
    trainer = column_trainer(columns, lambda inputs: model(inputs["text"]))
    trainer.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return lambda: trainer.fit(batches.dataset(), verbose=0)


def measured(step):
    step()  # traces
    return timing.memory(step)


if __name__ == "__main__":
    timing.limit_threads(timing.cores())
    cases = (of_function, of_fit, of_recipe)
    print(json.dumps({make.__name__: [measured(make(chunk)) for chunk in (None, 256)] for make in cases}))
