"""Subword vocabularies: trained once, then part of the model and of its SavedModel."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_moses_preprocessor": ["MosesPreprocessor"],
        "_sentencepiece_tokenizer": ["SentencePieceTokenizer"],
        "_sentencepiece_training": ["sample_lines", "train_sentencepiece"],
        "_word_tokenizer": ["WordTokenizer", "learn_words", "split_words"],
    },
)
