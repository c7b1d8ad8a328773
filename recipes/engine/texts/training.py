"""Training of classifiers of texts and their SavedModels: what recipes share of it."""

import numpy as np

from keras_headattn._files import read_lines
from keras_headattn.data import LabelledBatches, choose_buckets, example_lengths
from keras_headattn.serving import export_classifier, export_regressor, write_examples
from recipes.engine.exporting import packages_of, smoke_test

SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
if "values" in found:
    result = [f"{value:.3f}" for value in found["values"].numpy()]
else:
    rows = zip(found["classes"].numpy(), found["scores"].numpy())
    result = [f"{names[0].decode()} ({scores[0]:.3f})" for names, scores in rows]
"""


def keep_labels(run, targets, texts):
    """Writes the names of labels to the run's folder. One that `targets` lack in other sets is a `ValueError`."""
    for corpus in (texts.validation, *texts.tests.values()):
        targets.of(corpus)  # reported before training, not after it
    run.keep("labels.txt", "".join(f"{name}\n" for name in targets.names))


def kept_labels(run):
    """Returns the names of the labels of a run."""
    return list(read_lines(run.folder / "labels.txt"))


def make_batches(run, texts, targets, tokenizer, encode, tokens="pieces"):
    """Returns `LabelledBatches` to train on and to validate on.

    `encode` is a function of a `LabelledText` that returns columns of ids; `tokens` names what has an id.
    """
    config = run.config
    train, validation = map(encode, (texts.train, texts.validation))
    buckets = choose_buckets(example_lengths(train), config.num_buckets)
    longest = int(example_lengths(validation).max())
    labels = targets.of(texts.train)
    weights = balanced_class_weights(labels, targets.width) if config.class_weights == "balanced" else None
    common = dict(batch_size=config.batch_size, num_replicas=run.num_replicas, seed=config.seed)
    common["pad_id"] = getattr(tokenizer, "pad_id", 0)
    batches = LabelledBatches(train, labels, bucket_lengths=buckets, class_weights=weights, training=True, **common)
    lengths = (*buckets, longest) if longest > buckets[-1] else buckets
    held_out = LabelledBatches(validation, targets.of(texts.validation), bucket_lengths=lengths, **common)
    outputs = f"{len(targets.names)} labels" if targets.names else "numbers"
    print(f"{outputs}, {tokenizer.vocabulary_size:,} {tokens}")
    return batches, held_out


def model_inputs(columns):
    """Returns the inputs of a model: the columns of a pair as a tuple, but as they are with segments."""
    if "segment_ids" in columns:
        return columns
    return tuple(columns.values()) if len(columns) > 1 else next(iter(columns.values()))


def start_at_mean(model, targets, corpus):
    """Lets predictions of numbers start at the mean of a training set; those of labels stay as they are."""
    if not targets.names:
        bias = model.output_projection.bias
        bias.assign(np.full(bias.shape, targets.of(corpus).mean()))


def balanced_class_weights(labels, num_classes):
    """Weights `(C,)` by which all classes count the same: the mean number of examples of a class over its own.

    Over all examples their mean is 1. A class without examples has 0.

    >>> balanced_class_weights([0, 0, 0, 1], 2).tolist()
    [0.6666666865348816, 2.0]
    """
    counts = np.bincount(np.asarray(labels), minlength=num_classes)
    present = counts > 0
    weights = np.zeros(num_classes, "float32")
    weights[present] = len(labels) / (present.sum() * counts[present])
    return weights


def write_classifier(predictor, config, folder):
    """Writes the SavedModel of a `TextPredictor`, and returns its path."""
    model, tokenizer, targets = predictor.model, predictor.tokenizer, predictor.targets
    common = dict(max_length=config.max_length, pairs=config.is_pair, run=config.run, **config.export_arguments)
    if not targets.names:
        return export_regressor(model, tokenizer, folder, **common)
    return export_classifier(model, tokenizer, targets.names, folder, activation=targets.activation, **common)


def try_samples(path, config, tokenizer, texts):
    """Prints what a SavedModel predicts for examples of a test set of `Corpora`, and keeps them; none for `None`."""
    if not (texts and config.samples):
        return
    samples = next(iter(texts.tests.values()), texts.validation).sample(config.samples, config.seed)
    sides = {"text": samples.texts} | ({"second_text": samples.second_texts} if config.is_pair else {})
    write_examples(path, [dict(zip(sides, row, strict=True)) for row in zip(*sides.values(), strict=True)])
    predictions = smoke_test(path, SMOKE_TEST, sides, *packages_of(tokenizer))
    for label, prediction, *parts in zip(samples.labels, predictions, *sides.values(), strict=True):
        print(f"  {' | '.join(parts)}\n    -> {prediction}, labelled {label}")
