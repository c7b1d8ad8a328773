"""The SavedModel of a run, tried out at once in a process that knows nothing of this library."""

from keras_headattn.serving import export_classifier
from recipes.engine.fresh_process import try_out

# Runs with TensorFlow alone, and tensorflow-text for pieces, as a server would.
TRY_OUT = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
path, tokens, texts = json.load(sys.stdin)
if tokens == "pieces":
    import tensorflow_text
classify = tf.saved_model.load(path).signatures["serving_default"]
found = classify(**{name: tf.constant(values) for name, values in texts.items()})
names = [row[0].decode() for row in found["classes"].numpy()]
print(json.dumps([names, found["scores"][:, 0].numpy().tolist()]))
"""


def export(config, classifier, tokenizer, names, corpus=None):
    """Writes the SavedModel and prints what it makes of a few texts.

    Args:
        config: `ClassifyConfig`.
        classifier: trained `SentenceClassifier` or `SentencePairClassifier`.
        tokenizer: that of the run.
        names: list of str, the labels.
        corpus: `LabelledText` to take samples from; `None`: no samples.

    Returns:
        Path of the SavedModel.
    """
    path = export_classifier(classifier, tokenizer, names, config.export_folder, config.max_length, config.is_pair)
    print(f"SavedModel: {path}")
    if corpus is not None and config.samples:
        samples = corpus.sample(config.samples, config.seed)
        sides = {"text": samples.texts} | ({"second_text": samples.second_texts} if config.is_pair else {})
        found = try_out(TRY_OUT, path, config.tokens, sides)
        for label, name, score, *texts in zip(samples.labels, *found, *sides.values(), strict=True):
            print(f"  {' | '.join(texts)}\n    -> {name} ({score:.3f}), labelled {label}")
    return path
