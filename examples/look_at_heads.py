"""Look at what the heads of a model attend to, in numbers, in a picture and on a page.

    python examples/look_at_heads.py
    python examples/look_at_heads.py --attention talking_heads --num-heads 8

A small Transformer learns to write a row of letters backwards, so it is known where its heads should look: the first
letter that is written is the last one of the source, and the maps of the cross-attention are diagonals.

It prints the shapes of what each layer computes, how often each head looks at the right letter, and how far apart the
maps of two heads are. `maps.png` in `--folder` is a picture of all heads; open `maps.html` in a browser and point at
letters. `analysis.attention_maps` and what follows it work with any Keras model that has attention of this library.
"""

import argparse
import pathlib

import keras
import numpy as np

import keras_headattn as ka

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--folder", type=pathlib.Path, default="runs/heads", help="default: %(default)s")
parser.add_argument("--attention", default="multi_head", help="a name in layers.ATTENTIONS; default: %(default)s")
parser.add_argument("--num-heads", type=int, default=4, help="default: %(default)s")
parser.add_argument("--examples", type=int, default=4096, help="rows of letters; default: %(default)s")
parser.add_argument("--epochs", type=int, default=12, help="default: %(default)s")
args = parser.parse_args()
args.folder.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(0)

# ------------------------------------------------------------------------------
# Data: rows of 4 to 10 letters, and the same backwards. Id 0 is padding.

BEGIN, END, LETTERS = 1, 2, "abcdefghijklmnop"
rng = np.random.default_rng(0)
rows = [rng.integers(3, 3 + len(LETTERS), size=rng.integers(4, 11)) for _ in range(args.examples)]
columns = {
    "source": ka.data.pad_ids(rows, rows=len(rows), length=11),
    "target": ka.data.pad_ids([[*reversed(row), END] for row in rows], rows=len(rows), length=11),
}
inputs, labels, sample_weight = ka.data.teacher_forcing(columns, bos_id=BEGIN)

# ------------------------------------------------------------------------------
# Model and training.

model = ka.models.Transformer(
    3 + len(LETTERS),
    num_layers=1,
    hidden_dim=64,
    intermediate_dim=128,
    num_heads=args.num_heads,
    attention=args.attention,
    normalization="pre",
    dropout=0.0,
    name="reverse",
)
model.build()
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
    jit_compile=ka.training.default_jit(),
)
model.fit(inputs, labels, sample_weight=sample_weight, batch_size=128, epochs=args.epochs, verbose=2)

# ------------------------------------------------------------------------------
# What each layer computes on the way, by name.

batch = {name: ids[:32] for name, ids in inputs.items()}
logits, intermediates = model(batch, return_intermediates=True)
print("\nIntermediates:")
for layer, tensors in intermediates.items():
    print(f"  {layer}: {', '.join(f'{name} {tuple(tensor.shape)}' for name, tensor in tensors.items())}")

# ------------------------------------------------------------------------------
# Maps of all layers as NumPy arrays, by the path of the layer, and what they say in numbers.

maps = ka.analysis.attention_maps(model, batch)
cross_attention = maps["reverse/decoder_0/cross_attention"]
weights = cross_attention.weights  # (B, heads, target letters, source letters)

# The letter that is written at step t is at place n - 1 - t of the source.
lengths = (batch["source"] != 0).sum(axis=1, keepdims=True)
places = lengths - 1 - np.arange(weights.shape[2])  # (B, target letters), negative after the last letter
is_right = weights.argmax(axis=-1) == places[:, None]
shares = is_right.sum(axis=(0, 2)) / lengths.sum()
print("\nHow often each head of the cross-attention looks most at the right letter:")
print("  " + ", ".join(f"head {head}: {share:.0%}" for head, share in enumerate(shares, 1)))

print("\nMean distance between the maps of two heads (0: all heads do the same):")
for path, layer in maps.items():
    is_real = batch["source" if "encoder" in path else "target"] != 0
    rows = layer.weights * is_real[:, None, :, None]
    print(f"  {path}: {ka.analysis.head_distance(rows.reshape(*rows.shape[:2], -1)):.2f}")

# ------------------------------------------------------------------------------
# A picture of one example, and a page of several.

examples = []
for i in range(4):
    source = [LETTERS[token - 3] for token in batch["source"][i] if token]
    target = [*reversed(source), "."]  # row t of a map: where the head looks when letter t is written; "." is the end
    maps_of_heads = {"cross-attention": weights[i]}
    examples.append({"name": "".join(source), "tokens": [target, source], "maps": maps_of_heads})
ka.analysis.write_attention_page(args.folder / "maps.html", examples)

figure = ka.analysis.draw_text_maps(
    {"cross-attention": cross_attention}, tokens=examples[0]["tokens"], title="Where each head looks"
)
figure.savefig(args.folder / "maps.png", dpi=150)
print(f"\nWritten: {args.folder / 'maps.png'} and {args.folder / 'maps.html'}")
