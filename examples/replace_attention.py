"""Replace the attention of a Keras model that has nothing to do with this library, and compare the two.

    python examples/replace_attention.py
    python examples/replace_attention.py --num-layers 6 --epochs 40

The model is a small Vision Transformer with stock attention, trained to read handwritten digits (8 x 8 pixels, which
come with scikit-learn). `keras.models.clone_model` copies it with `TalkingHeadsAttention` in place of every
`keras.layers.MultiHeadAttention`. The weights are taken over, and talking heads that mix nothing yet compute what the
stock layer computes, so both models begin with the same predictions.

It prints what was copied, how far the first predictions differ, and a table with a row for each model: parameters, loss
and accuracy on the test digits, and the time of a step. `replace_attention` takes any functional model.
"""

import argparse
import math
import time

import keras
import sklearn.datasets
import sklearn.model_selection

import keras_headattn as ka

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--num-layers", type=int, default=3, help="default: %(default)s")
parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
parser.add_argument("--epochs", type=int, default=20, help="default: %(default)s")
args = parser.parse_args()
keras.utils.set_random_seed(0)

# ------------------------------------------------------------------------------
# Data: 1,797 digits, a fifth of which is the test set.

images, labels = sklearn.datasets.load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8, 1) / 16
train_images, test_images, train_labels, test_labels = sklearn.model_selection.train_test_split(
    images, labels, test_size=0.2, random_state=0
)

# ------------------------------------------------------------------------------
# The model: attention, blocks and head are Keras's own.


class Positions(keras.layers.Layer):
    """Adds a trained vector to each place of a sequence."""

    def build(self, input_shape):
        self.table = self.add_weight(shape=input_shape[1:], initializer="random_normal", name="table")

    def call(self, inputs):
        return inputs + self.table


def vision_transformer(num_layers, hidden_dim=32, num_heads=4):
    """Returns a classifier of images: patches of 2 x 2 pixels become 16 tokens."""
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(hidden_dim, kernel_size=2, strides=2, name="patches")(inputs)
    x = keras.layers.Reshape((16, hidden_dim))(x)
    x = Positions(name="positions")(x)
    for i in range(num_layers):
        y = keras.layers.LayerNormalization(name=f"attention_norm_{i}")(x)
        y = keras.layers.MultiHeadAttention(num_heads, hidden_dim // num_heads, name=f"attention_{i}")(y, y)
        x = keras.layers.Add()([x, y])
        y = keras.layers.LayerNormalization(name=f"mlp_norm_{i}")(x)
        y = keras.layers.Dense(2 * hidden_dim, activation="gelu", name=f"mlp_{i}")(y)
        y = keras.layers.Dense(hidden_dim, name=f"mlp_output_{i}")(y)
        x = keras.layers.Add()([x, y])
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization(name="norm")(x))
    return keras.Model(inputs, keras.layers.Dense(10, name="logits")(x), name="vision_transformer")


# ------------------------------------------------------------------------------
# The replacement.


def exchange(layer):
    """Returns a copy of a layer, with talking heads in place of stock attention. The settings and the name stay."""
    config = layer.get_config()
    if isinstance(layer, keras.layers.MultiHeadAttention):
        return ka.layers.TalkingHeadsAttention.from_config({**config, "mixing_initializer": "identity"})
    return layer.from_config(config)


def replace_attention(model):
    """Returns a copy of a functional model, with other attention and the same weights."""
    copy = keras.models.clone_model(model, clone_function=exchange)
    for layer, old in zip(copy.layers, model.layers, strict=True):
        if not isinstance(layer, ka.layers.Attention):
            layer.set_weights(old.get_weights())
    for report in ka.interop.copy_attention(model, copy):
        print(report)
    return copy


stock = vision_transformer(args.num_layers)
ours = replace_attention(stock)
difference = abs(stock.predict(test_images, verbose=0) - ours.predict(test_images, verbose=0)).max()
print(f"Before training the predictions differ by at most {difference:.1e}.\n")

# ------------------------------------------------------------------------------
# Train both in the same way.

print(f"{'attention':15} {'parameters':>10} {'loss':>7} {'accuracy':>9} {'ms a step':>10}")
for name, model in {"stock": stock, "talking heads": ours}.items():
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=ka.training.default_jit(),
    )
    model.fit(train_images, train_labels, batch_size=args.batch_size, verbose=0)  # an epoch that also makes the graph
    start = time.perf_counter()
    model.fit(train_images, train_labels, batch_size=args.batch_size, epochs=args.epochs, verbose=0)
    steps = args.epochs * math.ceil(len(train_images) / args.batch_size)
    milliseconds = 1000 * (time.perf_counter() - start) / steps
    loss, accuracy = model.evaluate(test_images, test_labels, batch_size=args.batch_size, verbose=0)
    print(f"{name:15} {model.count_params():10,} {loss:7.3f} {accuracy:9.1%} {milliseconds:10.1f}")
