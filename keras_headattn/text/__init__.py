"""From text to token ids and back: vocabularies that are trained once, then part of the model and of its SavedModel."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_byte_pair_tokenizer": ["BytePairTokenizer"],
        "_language_pair": ["LanguagePair"],
        "_moses_preprocessor": ["MosesPreprocessor"],
        "_sentencepiece_pair_tokenizer": ["SentencePiecePairTokenizer"],
        "_sentencepiece_tokenizer": ["SentencePieceTokenizer"],
        "_sentencepiece_training": ["sample_lines", "train_sentencepiece"],
        "_vocabularies": ["assign_word_vectors", "learn_tokenizer"],
        "_word_tokenizer": ["WordTokenizer", "learn_words", "split_words"],
        "_wordpiece_tokenizer": ["WordPieceTokenizer"],
        "_wordpiece_training": ["learn_wordpieces"],
    },
)
