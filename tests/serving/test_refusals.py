"""Arguments and texts that what answers with a model refuses,."""

import functools

import keras
import numpy as np

from keras_headattn.decoding import Shortlist
from keras_headattn.positions import LearnedPositions
from keras_headattn.serving import Classifier, QuestionAnswerer, Tagger, Translator
from keras_headattn.text import SentencePieceTokenizer, WordPieceTokenizer, WordTokenizer
from tests.refusals import refusals, values
from tests.serving import test_classifier, test_tagger, test_translator
from tests.serving.test_classifier import CLASSES
from tests.serving.test_tagger import TAGS, TOKENS
from tests.serving.test_translator import ENGLISH, GERMAN, OPTIONS
from tests.text.test_refusals import model as sentence_pieces


def classifier(names=CLASSES, **options):
    tokenizer = WordTokenizer(["two", "cats"])
    return Classifier(test_classifier.make_model(tokenizer), tokenizer, names, **options)


def tagger(names=TAGS, **options):
    return Tagger(test_tagger.Lookup({}, len(TOKENS)), WordPieceTokenizer(TOKENS), names, **options)


def answerer(**options):
    return QuestionAnswerer(keras.Model(), WordPieceTokenizer(TOKENS), **options)


@functools.cache
def transformer():
    return test_translator.make_model(positions=LearnedPositions(12))


def translator(**options):
    tokenizer = SentencePieceTokenizer(sentence_pieces())
    return Translator(transformer(), tokenizer, tokenizer, **OPTIONS | options)


def scored(sources, targets):
    return lambda: translator().score(sources, targets)


test_classifiers = refusals(
    (lambda: classifier()("two cats"), "texts", "the str 'two cats'"),
    (lambda: classifier()(["a", "b"], ["a"]), "second_texts", "2 texts and 1 second_texts"),
    (lambda: classifier(CLASSES[:2])(["a"]), "class_names", "2 names"),
    (lambda: classifier(max_length=0), "max_length", 0),
)

test_taggers = refusals(
    (lambda: tagger(TAGS[1:]), "tag_names", TAGS[1:]),
    (lambda: tagger()("zoe"), "texts", "the str 'zoe'"),
    (lambda: tagger(max_length=3), "max_length", 3),
    (lambda: tagger(TAGS[:3])(["zoe"]), "class_names", "3 names"),
)

test_question_answerers = refusals(
    (lambda: answerer()("a cat", ["a"]), "questions", "the str 'a cat'"),
    (lambda: answerer()(["a", "b"], ["a"]), "contexts", "2 questions and 1 contexts"),
    *values(answerer, max_answer_length=(0,), top=(0,), batch_size=(0,), stride=(0,)),
)

test_translators = refusals(
    *values(translator, beam_size=(21,), batch_size=(0,), max_length=(13,)),
    *values(translator, max_source_length=(1, 13), num_hypotheses=(0, 3)),
    (lambda: translator(shortlist=Shortlist(np.full((39, 3), 5), size=12)), "shortlist", "a table of 39"),
    (lambda: translator()(ENGLISH[0]), "sentences", f"the str '{ENGLISH[0]}'"),
    (lambda: translator()(ENGLISH, prefixes="die"), "prefixes", "'die'"),
    (lambda: translator()(ENGLISH, prefixes=["die"]), "prefixes", ["die"]),
    (lambda: translator()(ENGLISH, prefixes=["", GERMAN[1], ""]), "prefix", f"tokens, '{GERMAN[1]}'"),
    (scored("cat", "Hut"), "sources", "str of length 3, str of length 3"),
    (scored(ENGLISH, GERMAN[:1]), "targets", "list of length 3, list of length 1"),
    (scored(ENGLISH, [*GERMAN[:2], "Katze " * 20]), "target", "tokens"),
)
