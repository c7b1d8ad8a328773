"""A finished run as a model of another library."""

from keras_headattn.decoding import Shortlist
from keras_headattn.interop import to_ctranslate2, to_hugging_face
from keras_headattn.text import SentencePieceTokenizer
from recipes.translate.text import load_text, shortlist_path


def convert(run, config, folder, library, quantization=None):
    """Writes the model of a run and its vocabularies for CTranslate2, with its shortlist, or Hugging Face.

    Those libraries lack Moses' steps and lower case, which are printed.
    """
    model, text, path = run.load_model(), load_text(run, config), shortlist_path(run)
    source, target = (
        SentencePieceTokenizer.from_config({**tokenizer.get_config(), "lowercase": False})
        for tokenizer in (text.source, text.target)
    )
    if library == "ctranslate2":
        shortlist = Shortlist.load(path) if path.exists() else None
        to_ctranslate2(model, folder, source, target, quantization, shortlist)
    else:
        to_hugging_face(model, folder, source_tokenizer=source, target_tokenizer=target)
    if missing := ["Moses' steps"] * bool(text.source_moses) + ["lower case"] * text.source.lowercase:
        print(f"The text must have {' and '.join(missing)} before it is translated there.")
    print(f"Model for {library}: {folder} (docs/take_elsewhere.md says how to call it)")
