"""A finished run as a model of another library."""

from keras_headattn.interop import to_ctranslate2, to_hugging_face
from keras_headattn.text import SentencePieceTokenizer


def convert(model, text, folder, library, quantization=None, shortlist=None):
    """Writes the model of a run and its vocabularies for CTranslate2, with its shortlist, or Hugging Face.

    `text` is its `LanguagePair`, whose Moses' steps and lower case those libraries lack; they are printed.
    """
    source, target = (
        SentencePieceTokenizer.from_config({**tokenizer.get_config(), "lowercase": False})
        for tokenizer in (text.source, text.target)
    )
    if library == "ctranslate2":
        to_ctranslate2(model, folder, source, target, quantization, shortlist)
    else:
        to_hugging_face(model, folder, source_tokenizer=source, target_tokenizer=target)
    if missing := ["Moses' steps"] * bool(text.source_moses) + ["lower case"] * text.source.lowercase:
        print(f"The text must have {' and '.join(missing)} before it is translated there.")
    print(f"Model for {library}: {folder} (docs/take_elsewhere.md says how to call it)")
