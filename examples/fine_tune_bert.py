"""Fine-tune BERT on texts with labels, with its own attention or another one, evaluate it, and save it.

    hf download google-bert/bert-base-uncased --local-dir bert-base-uncased
    python examples/fine_tune_bert.py bert-base-uncased reviews.csv
    python examples/fine_tune_bert.py bert-base-uncased reviews.csv --attention talking_heads

The checkpoint is a folder in Hugging Face's layout: `config.json`, `model.safetensors` and `vocab.txt` or
`tokenizer.json`. The table is a CSV or TSV file whose first line names the columns, `text` and `label` unless you say
otherwise. A tenth of its rows is held out for validation, and a tenth for the test.

It prints what was copied from the checkpoint, the loss and accuracy of each epoch, measures on the test set, and
predictions for three test texts. `--folder` then has `model.keras` to go on with in Keras, and `serving/1`, a
SavedModel for TensorFlow Serving that takes plain text.
"""

import argparse
import functools
import pathlib

import keras
import numpy as np

import keras_headattn as ka

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint", help="folder of a BERT")
parser.add_argument("table", help="CSV or TSV file of texts with labels")
parser.add_argument("--text", default="text", help="column of the texts; default: %(default)s")
parser.add_argument("--label", default="label", help="column of the labels; default: %(default)s")
parser.add_argument("--folder", type=pathlib.Path, default="runs/bert", help="default: %(default)s")
parser.add_argument("--attention", default="multi_head", help="a name in layers.ATTENTIONS; default: %(default)s")
parser.add_argument("--max-length", type=int, default=128, help="longer texts are cut; default: %(default)s")
parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
parser.add_argument("--learning-rate", type=float, default=3e-5, help="default: %(default)s")
parser.add_argument("--epochs", type=int, default=3, help="default: %(default)s")
args = parser.parse_args()
keras.utils.set_random_seed(0)

# ------------------------------------------------------------------------------
# Data: texts become token ids, labels the numbers of classes.

examples = ka.data.read_labelled([args.table], text=args.text, label=args.label)
train, validation, test = examples.split([0.1, 0.1])
class_names = sorted(set(examples.labels))
print(f"{len(train)} texts to train on, {len(validation)} for validation, {len(test)} to test; classes: {class_names}")

tokenizer = ka.interop.tokenizer_of(args.checkpoint, max_length=args.max_length)


def make_batches(examples, training=False):
    """Returns batches of texts of similar length; those for training come in another order in each epoch."""
    return ka.data.LabelledBatches(
        {"token_ids": tokenizer.encode(examples.texts)},
        labels=[class_names.index(label) for label in examples.labels],
        batch_size=args.batch_size,
        bucket_lengths=[length for length in (16, 32, 64) if length < args.max_length] + [args.max_length],
        training=training,
        pad_id=tokenizer.pad_id,
    )


# ------------------------------------------------------------------------------
# Model: the encoder of the checkpoint, with the attention that was asked for, and a new head.

attention = args.attention
if attention == "talking_heads":
    # At first these heads mix nothing, so that they compute what the checkpoint computes, and learn to mix from there.
    attention = functools.partial(ka.layers.TalkingHeadsAttention, mixing_initializer="identity")
encoder, report = ka.interop.from_pretrained(args.checkpoint, attention=attention, return_report=True)
print(report)
model = ka.models.EncoderClassifier(encoder, num_outputs=len(class_names))
model.build()
print(f"{model.count_params():,} parameters")

# ------------------------------------------------------------------------------
# Training: the learning rate rises for a tenth of the steps, then falls to 0.

batches = make_batches(train, training=True)
total_steps = args.epochs * len(batches)
learning_rate = ka.optimizers.LinearDecay(args.learning_rate, total_steps // 10, total_steps)
model.compile(
    optimizer=ka.optimizers.AdamWeightDecay(learning_rate, weight_decay=0.01, global_clipnorm=1.0),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
    jit_compile=ka.training.default_jit(),
)
model.fit(
    batches.dataset(),
    validation_data=make_batches(validation).dataset(),
    epochs=args.epochs,
    shuffle=False,  # `batches` has an order of its own for each epoch
    callbacks=[ka.training.Resume(args.folder / "checkpoints", batches), ka.training.Progress()],
)

# ------------------------------------------------------------------------------
# Evaluation: `Classifier` takes texts and returns probabilities, or the likeliest class first.

classify = ka.serving.Classifier(model, tokenizer, class_names, max_length=args.max_length)
labels = np.array([class_names.index(label) for label in test.labels])
print("\nTest set:")
for measure, value in ka.analysis.evaluate_classifier(labels, classify.probabilities(test.texts)).items():
    print(f"  {measure}: {value:.3f}")

for text, label, prediction in zip(test.texts[:3], test.labels, classify(test.texts[:3]), strict=False):
    print(f"\n{text[:100]}\n  predicted: {prediction.label} ({prediction.score:.2f}), labelled: {label}")

# ------------------------------------------------------------------------------
# Save.

model.save(args.folder / "model.keras")
path = ka.serving.export_classifier(
    model, tokenizer, class_names, args.folder / "serving", max_length=args.max_length, run="fine_tune_bert"
)
print(f"\nSaved: {args.folder / 'model.keras'} and {path}")
