"""SavedModels of a run, tried out at once in a process that knows nothing of this library."""

from keras_headattn.data import source_lengths
from keras_headattn.decoding import Searcher
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


def export(config, transformer, text, sentences):
    """Writes the text and the ids SavedModel and prints what the first makes of a few sentences.

    Args:
        config: `TranslateConfig`.
        transformer: trained `Transformer`.
        text: `Text`. Moses steps are no part of the SavedModel: it takes text that has gone through them.
        sentences: list of str to choose samples from; it may be empty.

    Returns:
        Paths of the two SavedModels.
    """
    searcher = Searcher(
        transformer,
        beam_size=config.beam_size,
        alpha=config.alpha,
        max_length=config.max_length,
        start_id=text.target.bos_id,
        end_id=text.target.eos_id,
    )
    longest = source_lengths(config.max_length)[-1]
    path = export_translator(searcher, text.source, text.target, config.export, max_source_length=longest)
    ids_path = export_id_translator(searcher, f"{config.export}_ids")
    print(f"SavedModels: {path} (text), {ids_path} (token ids)")
    step = max(1, len(sentences) // max(1, config.sample_sentences))
    samples = text.prepare_source(sentences[::step][: config.sample_sentences])
    if samples:
        for source, translation, score in zip(samples, *try_out(TRY_OUT, path, samples), strict=True):
            print(f"  {source}\n    -> {translation}  ({score:.3f})")
    return path, ids_path
