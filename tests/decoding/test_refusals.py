"""What searches and shortlists refuse."""

import functools
import math

import keras
import numpy as np
import pytest

from keras_headattn.decoding import (
    Constraints,
    Generator,
    Searcher,
    Shortlist,
    beam_search,
    greedy_search,
    sample_search,
)
from keras_headattn.positions import LearnedPositions
from tests.decoding.tables import END, START, random_tables, search_tables, table_step
from tests.decoding.test_generator import language_model
from tests.decoding.test_searcher import STEPS, search, sources, translator, usual
from tests.models.small import TARGET_VOCABULARY
from tests.refusals import refusals, refused, values

NAN, LENGTH = math.nan, 7
LIST = np.array([8, 5, 7, 9, 6, 4, 0, 0], "int32")


def run(search, constraints=None, **arguments):
    step, ids = table_step(random_tables(1)), {"start_id": START, "end_id": END}
    search(step, {}, 1, **{"max_length": LENGTH, **ids, **arguments}, constraints=Constraints(**constraints or {}))


def constrain(**constraints):
    greedy_search(None, {}, 1, LENGTH, START, END, constraints=Constraints(**constraints))


test_searches = refusals(
    *(
        case
        for search in (greedy_search, beam_search)
        for case in values(
            functools.partial(run, search), max_length=(-2,), start_id=(-1,), end_id=(NAN,), alpha=(NAN, "x")
        )
    ),
    *(
        (functools.partial(run, search, {"suppress": suppress}), "`suppress`", received)
        for search in (greedy_search, beam_search)
        for suppress, received in (([-1], -1), ([2, END], [2, END]), (5, 5))
    ),
    *values(functools.partial(run, beam_search), beam_size=(0,), coverage_penalty=(-1,)),
    (lambda: run(beam_search, coverage_penalty=0.1), "`source_mask`", ""),
    (lambda: search_tables(random_tables(1, 7), 4, 0.6, 3), "beam_size", 4),
    *values(constrain, min_length=(-1,), no_repeat_ngram_size=(1.5,), repetition_penalty=(0.0,), force_end=("no",)),
    (lambda: constrain(min_length=LENGTH), "`min_length`", "min_length=7, max_length=7"),
    *values(
        functools.partial(sample_search, None, {}, 1, LENGTH, START, END), temperature=(0.0,), top_k=(0,), top_p=(1.5,)
    ),
)


def searcher(**arguments):
    return Searcher(usual(), **arguments)


test_searcher = refusals(
    *values(searcher, beam_size=(0, 2.0, -1, NAN), max_length=(0, None, -2, NAN)),
    *values(searcher, alpha=(NAN, math.inf, -0.1, "x", None), start_id=(-1, TARGET_VOCABULARY, 2.0, NAN, None)),
    *values(searcher, end_id=(-1, TARGET_VOCABULARY), num_samples=(0,)),
    (lambda: searcher(temperature=0.5), "`num_samples`", "temperature=0.5"),
    (lambda: searcher(num_samples=2, top_p=0.0), "`top_p`", "top_p=0.0"),
    (lambda: searcher(min_length=128), "`min_length`", "min_length=128, max_length=128"),
    (lambda: searcher(coverage_penalty=0.1, beam_size=1), "`coverage_penalty`", ""),
    (lambda: searcher(coverage_penalty=0.1, num_samples=2), "`coverage_penalty`", ""),
    (lambda: searcher(coverage_penalty=0.1)({"graph": sources()}), "`coverage_penalty`", "inputs graph"),
    (lambda: searcher(max_length=STEPS)(sources(), prefix=np.ones((3, 7), "int32")), "`prefix`", (3, 7)),
    (lambda: search(usual(), sources(), beam_size=TARGET_VOCABULARY // 2 + 1), "beam_size", TARGET_VOCABULARY // 2 + 1),
    (lambda: Searcher(keras.Sequential()), "model", "class Sequential, without init_cache and decode_step"),
)


def test_ids_of_one_vocabulary_for_both_languages():
    model = translator(target_vocabulary_size=None)
    with refused("`end_id`", "end_id=11"):
        Searcher(model, end_id=11)
    assert Searcher(model, end_id=10).end_id == 10


def test_models_without_steps():
    stub = keras.Sequential()
    stub.init_cache = lambda source, max_length: {}
    with refused("model", "class Sequential, without decode_step"):
        Searcher(stub)
    stub.decode_step = lambda *given: given
    with refused("`shortlist`", "a model of class Sequential"):
        Searcher(stub)(sources(), shortlist=LIST)


def test_translations_longer_than_the_learned_positions():
    model = translator(positions=LearnedPositions(4))
    with refused("`max_length`", "max_length=5"):
        Searcher(model, max_length=5)
    assert Searcher(model, max_length=4).max_length == 4


def generator(**arguments):
    return Generator(language_model(), **{"max_length": 4, **arguments})


def generate(ids=((1, 2), (3, 4)), lengths=None, name="multi_head", **arguments):
    Generator(language_model(name), **{"max_length": 4, **arguments})(
        np.array(ids), None if lengths is None else np.array(lengths)
    )


test_generator = refusals(
    *values(generator, max_length=(0,), temperature=(-1, NAN), top_k=(0,), top_p=(0, 1.5), min_p=(1, -0.1)),
    *values(generator, repetition_penalty=(0,), no_repeat_ngram_size=(-1,), min_length=(-1, 4), num_samples=(0,)),
    *values(generator, start_ids=((11,), 3), end_ids=((-1,),), suppress=((True,),), seed=(-1,), beam_size=(0, 1)),
    *values(generator, return_token_scores=("yes",), stop=(((),),)),
    (lambda: generator(stop=((2, 11),)), "`stop`", "stop=(2, 11)"),
    (lambda: generator(suppress=(2, 3), end_ids=(3,)), "`suppress`", (2, 3)),
    *(
        (functools.partial(generator, beam_size=2, **others), "`beam_size`", "beam_size=2")
        for others in ({"num_samples": 2}, {"top_k": 3}, {"temperature": 0.5}, {"stop": ((5,),)}, {"end_ids": (3, 4)})
    ),
    (lambda: next(generator(beam_size=2).stream(np.ones((1, 2), "int32"))), "`beam_size`", "beam_size=2"),
    (
        lambda: generator(beam_size=2)(np.ones((1, 2), "int32"), options=generator().request()),
        "`options`",
        "beam_size=2",
    ),
    (lambda: generator().request(max_tokens=5), "max_length=4", "max_tokens=5"),
    (lambda: generator().request(max_tokens=2, min_tokens=3), "`min_tokens`", "min_tokens=3, max_tokens=2"),
    (lambda: Generator(usual()), "`model`", "class Transformer, without prefill, copy_cache"),
    (lambda: generate(np.ones((2, 0), "int32")), "`token_ids`", (2, 0)),
    (lambda: generate(np.ones(2, "int32")), "`token_ids`", (2,)),
    *((functools.partial(generate, lengths=lengths), "`lengths`", "lengths=[") for lengths in ([0, 2], [1, 3], [2])),
    (lambda: generate(ids=((1, 2), (3, 11))), "Token ids", 11),
    (lambda: generate(start_ids=(1,), max_length=48), "`max_length`=48 must fit the 50 positions", "51 tokens"),
    (lambda: generate(lengths=[1, 2], name="evolving"), "`first`", ""),
)


def shortlist(**arguments):
    return Shortlist(np.array([[1]]), **arguments)


test_shortlists = refusals(
    (lambda: Shortlist(np.zeros(3, "int32")), "`table`", "int32 of shape"),
    (lambda: Shortlist(np.array([[-1]])), "`table`", ""),
    *values(functools.partial(Shortlist, np.array([[1]])), always=([-1], [0.5], [[1], [2]])),
    *values(shortlist, size=(0,)),
    (lambda: shortlist(size=1, always=[1, 2]), "`always`", "2 ids"),
    (lambda: Shortlist.from_probabilities([1], [5, 6], [0.5], source_size=3), "length", "1, 2 and 1"),
    (
        lambda: Shortlist.from_probabilities([1, 3], [5, 6], [0.5, 0.5], source_size=3),
        "`source_size`",
        "ids from 1 to 3, source_size=3",
    ),
    (lambda: Shortlist.learn([], [], 10), "at least 1", "0 and 0"),
)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
def test_a_quantised_output_has_no_logits_of_few_tokens():
    model = translator()
    model.quantize("int8")
    with refused("quantised", "int8"):
        Searcher(model, max_length=STEPS)(sources(), shortlist=LIST)
