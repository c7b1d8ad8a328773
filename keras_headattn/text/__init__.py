"""Subword vocabularies: trained once, then part of the model and of its SavedModel."""

from keras_headattn.text.moses_preprocessor import MosesPreprocessor as MosesPreprocessor
from keras_headattn.text.sentencepiece_tokenizer import SentencePieceTokenizer as SentencePieceTokenizer
from keras_headattn.text.sentencepiece_training import train_sentencepiece as train_sentencepiece
from keras_headattn.text.word_tokenizer import WordTokenizer as WordTokenizer
from keras_headattn.text.word_tokenizer import learn_words as learn_words
