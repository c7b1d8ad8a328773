"""Train a translator with `model.fit`, translate a few sentences, and save the model.

    python examples/train_translator.py
    python examples/train_translator.py --source train.en --target train.de --attention evolving --epochs 10

Without files it learns from sentences that are made up here, in about a minute on a CPU. Files of your own have one
sentence a line; line 7 of one is the translation of line 7 of the other.

It prints the shapes of the batches, the loss and accuracy of each epoch, and translations of five sentences that were
held out. The vocabulary, checkpoints and `model.keras` are in `--folder`. If training is interrupted, the same command
continues where it stopped.
"""

import argparse
import functools
import itertools
import pathlib
import random

import keras

import keras_headattn as ka

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--source", help="text file of sentences")
parser.add_argument("--target", help="text file of their translations")
parser.add_argument("--folder", type=pathlib.Path, default="runs/translator", help="default: %(default)s")
parser.add_argument("--attention", default="talking_heads", help="a name in layers.ATTENTIONS; default: %(default)s")
parser.add_argument("--num-layers", type=int, default=2, help="default: %(default)s")
parser.add_argument("--hidden-dim", type=int, default=128, help="default: %(default)s")
parser.add_argument("--num-heads", type=int, default=4, help="default: %(default)s")
parser.add_argument("--vocabulary-size", type=int, help="default: 8000, or 200 without files")
parser.add_argument("--tokens-per-batch", type=int, default=2048, help="default: %(default)s")
parser.add_argument("--learning-rate", type=float, default=1e-3, help="the highest one; default: %(default)s")
parser.add_argument("--warmup-steps", type=int, default=400, help="default: %(default)s")
parser.add_argument("--epochs", type=int, default=30, help="default: %(default)s")
args = parser.parse_args()
if (args.source is None) != (args.target is None):
    parser.error("--source and --target belong together")
keras.utils.set_random_seed(0)

# ------------------------------------------------------------------------------
# Data: pairs of sentences, a tenth of which are held out for validation.

WHEN = {"": "", "today": "heute", "at night": "nachts", "on Sundays": "sonntags"}
WHO = {
    "a man": "ein Mann", "a woman": "eine Frau", "my sister": "meine Schwester", "her friend": "ihre Freundin",
    "the teacher": "der Lehrer", "the old dog": "der alte Hund", "a small boy": "ein kleiner Junge",
}  # fmt: skip
DOES = {"sings": "singt", "sleeps": "schläft", "waits": "wartet", "plays": "spielt", "laughs": "lacht"}
WHERE = {
    "in the garden": "im Garten", "at the station": "am Bahnhof", "on the beach": "am Strand",
    "in the kitchen": "in der Küche", "under a tree": "unter einem Baum", "at school": "in der Schule",
}  # fmt: skip


def made_up_pairs():
    """Returns English sentences and their translations. The German verb comes second, before or after the subject."""
    pairs = []
    for when, who, does, where in itertools.product(WHEN, WHO, DOES, WHERE):
        german = [WHEN[when], DOES[does], WHO[who]] if when else [WHO[who], DOES[does]]
        pairs.append((f"{when} {who} {does} {where}".strip(), " ".join([*german, WHERE[where]])))
    return pairs


pairs = list(ka.data.read_text(args.source, args.target)) if args.source else made_up_pairs()
random.Random(0).shuffle(pairs)
num_held_out = min(1000, len(pairs) // 10)
held_out, pairs = pairs[:num_held_out], pairs[num_held_out:]

# One vocabulary for both languages. It is learned the first time, and then read from the folder.
text = ka.text.LanguagePair.learn(
    args.folder,
    sentences=([source for source, _ in pairs], [target for _, target in pairs]),
    vocabulary_size=args.vocabulary_size or (8000 if args.source else 200),
)


def make_batches(pairs, shuffle):
    """Returns batches of token ids: in each, sentences of similar length are padded to one of the bucket lengths."""
    columns = {
        "source": text.encode_source([source for source, _ in pairs]),
        "target": text.encode_target([target for _, target in pairs]),
    }
    return ka.data.TokenBatches(
        columns,
        tokens_per_batch=args.tokens_per_batch,
        bucket_lengths=(16, 32, 64, 128),
        preprocess=functools.partial(ka.data.teacher_forcing, bos_id=text.target.bos_id),
        shuffle=shuffle,
    )


train, validation = make_batches(pairs, shuffle=True), make_batches(held_out, shuffle=False)
print(train.summary())

# ------------------------------------------------------------------------------
# Model and training.

model = ka.models.Transformer(
    text.source.vocabulary_size,
    num_layers=args.num_layers,
    hidden_dim=args.hidden_dim,
    intermediate_dim=4 * args.hidden_dim,
    num_heads=args.num_heads,
    attention=args.attention,
)
model.build()
print(f"{model.count_params():,} parameters")

learning_rate = ka.optimizers.InverseSquareRoot(args.learning_rate, args.warmup_steps)
use_xla = ka.training.default_jit()  # on GPUs
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate, beta_2=0.98, epsilon=1e-9),
    loss=ka.losses.LabelSmoothedCrossentropy(0.1),
    weighted_metrics=["accuracy"],
    jit_compile=use_xla,
)
model.fit(
    train.dataset(),
    validation_data=validation.dataset(),
    epochs=args.epochs,
    shuffle=False,  # `train` has an order of its own for each epoch
    callbacks=[ka.training.Resume(args.folder / "checkpoints", train), ka.training.Progress()],
)

# ------------------------------------------------------------------------------
# Translate sentences that the model has not seen, with beam search, and save the model.

translate = ka.serving.Translator(model, text.source, text.target, beam_size=4, jit_compile=use_xla)
examples = held_out[:5]
for (source, reference), translation in zip(examples, translate([source for source, _ in examples]), strict=True):
    print(f"\n{source}\n  translation: {translation.text}\n  reference:   {reference}")

model.save(args.folder / "model.keras")
print(f"\nSaved: {args.folder / 'model.keras'}")
