"""Questions made by code: who has how many of what. A third of them have no answer. No download."""

import numpy as np

from headattn_io.squad import Question, Questions
from recipes.engine.numbers import SPLITS, assign_numbers, number_in_words, number_up_to

NAMES = "Ann Bob Carla David Emma Frank Greta Henry Ida Jack Kate Leo".split()
THINGS = "apples books coins doors eggs flags games hats".split()


def number_questions(train_size=6_000, validation_size=400, test_size=400, seed=0):
    """Makes the splits "train", "validation" and "test": `Questions`. It needs num2words.

    A context says how many of some things some people have. The person of a question has other things there too, and
    other people have the thing, so that both must be found. The numbers of the three splits are disjoint.

    >>> task = number_questions(3, 3, 3)
    >>> [bool(row.answers) for row in task["train"].rows]
    [True, True, False]
    """
    sizes = dict(zip(SPLITS, (train_size, validation_size, test_size), strict=True))
    split_of = assign_numbers(seed)
    found = {}
    for place, (name, size) in enumerate(sizes.items()):
        rng = np.random.default_rng([seed, place, 4])
        rows = [_question(rng, f"{name}{number}", number % 3 < 2, split_of == place) for number in range(size)]
        found[name] = Questions(rows, f"number questions, {name}")
    return found


def _question(rng, name, has_answer, is_here):
    people, things = rng.choice(NAMES, 3, replace=False), rng.choice(THINGS, 3, replace=False)
    pairs = [(people[0], things[0])] * has_answer
    pairs += [(people[0], things[1]), (people[1], things[0]), (people[1], things[1]), (people[2], things[2])]
    order, context, answers = rng.permutation(len(pairs)), "", ()
    for index in order:
        person, thing = pairs[index]
        amount = _amount(rng, is_here)
        begin = f"{person} has "
        if has_answer and index == 0:
            answers = ((amount, len(context) + len(begin)),)
        context += f"{begin}{amount} {thing}. "
    return Question(name, f"How many {things[0]} does {people[0]} have?", context.strip(), answers)


def _amount(rng, is_here):
    """Returns a number of a split in words."""
    while True:
        number = number_up_to(rng, 4)
        if number > 1 and is_here[number]:
            return number_in_words(number, "en")
