"""Tokenizers, saved with a model and its SavedModel. Wrong arguments raise a ValueError that names them."""

from keras_headattn import _tensorflow  # noqa: F401
from keras_headattn.text._byte_fallback_tokenizer import ByteFallbackTokenizer
from keras_headattn.text._byte_pair_tokenizer import BytePairTokenizer
from keras_headattn.text._byte_pair_training import train_byte_pairs
from keras_headattn.text._byte_texts import StreamDecoder
from keras_headattn.text._byte_tokenizer import ByteTokenizer
from keras_headattn.text._character_tokenizer import CharacterTokenizer
from keras_headattn.text._language_pair import LanguagePair
from keras_headattn.text._modernbert_tokenizer import ModernBertTokenizer
from keras_headattn.text._moses_preprocessor import MosesPreprocessor
from keras_headattn.text._question_windows import QuestionWindows
from keras_headattn.text._sentencepiece_pair_tokenizer import SentencePiecePairTokenizer
from keras_headattn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text._sentencepiece_training import train_sentencepiece
from keras_headattn.text._text_windows import TextWindows, WindowRows, find_words, join_words
from keras_headattn.text._word_tokenizer import WordTokenizer, learn_words, split_words
from keras_headattn.text._wordpiece_tokenizer import WordPieceTokenizer
from keras_headattn.text._wordpiece_training import learn_wordpieces

__all__ = [
    "ByteFallbackTokenizer",
    "BytePairTokenizer",
    "ByteTokenizer",
    "CharacterTokenizer",
    "LanguagePair",
    "ModernBertTokenizer",
    "MosesPreprocessor",
    "QuestionWindows",
    "SentencePiecePairTokenizer",
    "SentencePieceTokenizer",
    "StreamDecoder",
    "TextWindows",
    "WindowRows",
    "WordPieceTokenizer",
    "WordTokenizer",
    "find_words",
    "join_words",
    "learn_wordpieces",
    "learn_words",
    "split_words",
    "train_byte_pairs",
    "train_sentencepiece",
]
