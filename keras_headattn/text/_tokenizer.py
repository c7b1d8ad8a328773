from keras_headattn.text._pair_tokenizer import PairTokenizer
from keras_headattn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text._word_tokenizer import WordTokenizer

Tokenizer = WordTokenizer | SentencePieceTokenizer | PairTokenizer
