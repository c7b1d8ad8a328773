"""Accuracy of finished runs, and the images that cannot be read."""

import json

import keras
import numpy as np

from keras_headattn._files import write_atomically
from keras_headattn.metrics import MatthewsCorrelationCoefficient
from keras_headattn.training import default_jit
from recipes.engine.progress import progress_bar
from recipes.engine.report import report_one_class, write_confusion
from recipes.imagenet.modelling import make_metrics

MOST_DRAWN = 50  # classes of a confusion matrix
ADVICE = " Train for more --epochs; a ResNet may need a lower --statistics-momentum, such as 0.9."


def score_images(classifier, batches, folder, names, quiet=False):
    """Measures accuracy on all images that can be read; prints it, and writes it to `folder/scores.json`.

    Of few classes Matthews correlation coefficient, `mcc`, and the confusion matrix are written too. The classifier
    returns logits; `batches` are `ImageBatches`, `names` those of the classes.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # The loss of `evaluate` includes weight decay, and damaged images in its mean.
    entropy = keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cross_entropy")
    num_classes = classifier.output_shape[-1]
    metrics = [*make_metrics(num_classes), entropy]
    if few := 2 <= num_classes <= MOST_DRAWN:
        metrics.append(MatthewsCorrelationCoefficient(num_classes, name="mcc"))  # counts labels and predictions
    classifier.compile(loss=loss, weighted_metrics=metrics, jit_compile=default_jit())
    count, size = len(batches.source), batches.batch_size
    progress = progress_bar(f"Evaluating on {count:,} images", count, quiet)
    shown = keras.callbacks.LambdaCallback(
        on_test_batch_end=lambda batch, logs: progress(min(count, size + batch * size))
    )
    results = classifier.evaluate(batches.dataset(), verbose=0, callbacks=[shown], return_dict=True)
    scores = {name: float(value) for name, value in results.items()}
    scores["examples"] = len(batches.source) - batches.num_damaged
    scores["loss"] = scores.pop("cross_entropy")
    report_damaged(folder / "damaged.txt", batches)
    if few:
        weight = len(batches) * batches.batch_size / len(batches.source)  # of each image
        counts = np.rint(metrics[-1].confusion.numpy() / weight).astype(int)
        labels, predicted = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0).T
        write_confusion(folder, labels, np.eye(num_classes)[predicted], names)
        report_one_class(folder.name, labels, np.eye(num_classes)[predicted], names, "image", ADVICE)
    write_atomically(folder / "scores.json", (json.dumps(scores, indent=2) + "\n").encode())
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items() if name != "examples"))


def report_damaged(path, *batches):
    """Adds images that could not be read to a text file, and prints the number of all in it.

    A line is a name, a tab, and the fault. Those that the file has already are not reported again.
    """
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = {f"{name}\t{fault}": None for part in batches for name, fault in part.damaged.items()}
    new = [line for line in lines if line not in set(known)]
    if not new:
        return
    write_atomically(path, "".join(f"{line}\n" for line in [*known, *new]).encode())
    shown = ", ".join(line.replace("\t", " (") + ")" for line in new[:3])
    rest = f" and {len(new) - 3} others" if len(new) > 3 else ""
    print(f"\n{len(known) + len(new)} damaged images or files are skipped, named in {path}: {shown}{rest}")
