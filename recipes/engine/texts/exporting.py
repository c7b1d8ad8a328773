"""SavedModels of classifiers of texts."""

from keras_headattn.serving import export_classifier, export_regressor, write_examples
from recipes.engine.fresh_process import packages_of, smoke_test

SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
if "values" in found:
    result = [f"{value:.3f}" for value in found["values"].numpy()]
else:
    rows = zip(found["classes"].numpy(), found["scores"].numpy())
    result = [f"{names[0].decode()} ({scores[0]:.3f})" for names, scores in rows]
"""


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
    found = smoke_test(path, SMOKE_TEST, sides, *packages_of(tokenizer))
    for label, prediction, *parts in zip(samples.labels, found, *sides.values(), strict=True):
        print(f"  {' | '.join(parts)}\n    -> {prediction}, labelled {label}")
