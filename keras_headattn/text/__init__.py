"""Subword vocabularies: trained once, then part of the model and of its SavedModel."""

from keras_headattn.text.moses_preprocessor import MosesPreprocessor
from keras_headattn.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text.sentencepiece_training import train_sentencepiece
from keras_headattn.text.word_tokenizer import WordTokenizer, learn_words

__all__ = ["MosesPreprocessor", "SentencePieceTokenizer", "WordTokenizer", "learn_words", "train_sentencepiece"]
