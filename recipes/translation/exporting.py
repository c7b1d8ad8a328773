"""SavedModels of a run, tried out at once in a process that knows nothing of this library."""

from keras_headattn.serving import export_id_translator, export_translator
from recipes.engine.fresh_process import try_out

# Runs with TensorFlow and tensorflow-text alone, as a server would.
TRY_OUT = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf, tensorflow_text
path, sentences = json.load(sys.stdin)
translate = tf.saved_model.load(path).signatures["serving_default"]
found = translate(text=tf.constant(sentences))
texts = [text.decode() for text in found["translations"].numpy()]
print(json.dumps([texts, found["scores"].numpy().tolist()]))
"""


def export(config, translator, run, sentences):
    """Writes the text and the ids SavedModel and prints what the first makes of a few sentences.

    Args:
        config: `TranslateConfig`.
        translator: `Translator`. Moses steps are no part of the SavedModel: it takes text that has gone through them.
        run: `Run`.
        sentences: list of str to choose samples from; it may be empty.

    Returns:
        Paths of the two SavedModels.
    """
    text, searcher = translator.text, translator.searcher
    longest, folder = translator.max_source_length, config.export_folder
    path = export_translator(searcher, text.source, text.target, folder, max_source_length=longest, run=config.run)
    ids_path = export_id_translator(searcher, f"{folder}_ids", run=config.run)
    print(f"SavedModels: {path} (text), {ids_path} (token ids)")
    step = max(1, len(sentences) // max(1, config.samples))
    samples = text.prepare_source(sentences[::step][: config.samples])
    if samples:
        for source, translation, score in zip(samples, *try_out(TRY_OUT, path, samples), strict=True):
            print(f"  {source}\n    -> {translation}  ({score:.3f})")
    return path, ids_path
