"""The SavedModel of a run, tried out at once in a process that knows nothing of this library."""

from keras_headattn.serving import export_classifier, export_regressor
from recipes.engine.fresh_process import try_out

# Runs with TensorFlow alone, and tensorflow-text for pieces, as a server would.
TRY_OUT = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
path, tokens, texts = json.load(sys.stdin)
if tokens == "pieces":
    import tensorflow_text
predict = tf.saved_model.load(path).signatures["serving_default"]
found = predict(**{name: tf.constant(values) for name, values in texts.items()})
if "values" in found:
    print(json.dumps([f"{value:.3f}" for value in found["values"].numpy()]))
else:
    rows = zip(found["classes"].numpy(), found["scores"].numpy())
    print(json.dumps([f"{names[0].decode()} ({scores[0]:.3f})" for names, scores in rows]))
"""


def export(config, model, tokenizer, targets, corpus=None):
    """Writes the SavedModel and prints what it makes of a few texts.

    Args:
        config: `ClassifyConfig`.
        model: trained `SentenceClassifier` or `SentencePairClassifier`.
        tokenizer: that of the run.
        targets: what is predicted, as of `recipes.sentences.targets`.
        corpus: `LabelledText` to take samples from; `None`: no samples.

    Returns:
        Path of the SavedModel.
    """
    common = dict(max_length=config.max_length, pairs=config.is_pair, run=config.run)
    if config.predict == "number":
        path = export_regressor(model, tokenizer, config.export_folder, **common)
    else:
        common |= dict(activation=targets.activation)
        path = export_classifier(model, tokenizer, targets.names, config.export_folder, **common)
    print(f"SavedModel: {path}")
    if corpus is not None and config.samples:
        samples = corpus.sample(config.samples, config.seed)
        sides = {"text": samples.texts} | ({"second_text": samples.second_texts} if config.is_pair else {})
        found = try_out(TRY_OUT, path, config.tokens, sides)
        for label, prediction, *texts in zip(samples.labels, found, *sides.values(), strict=True):
            print(f"  {' | '.join(texts)}\n    -> {prediction}, labelled {label}")
    return path
