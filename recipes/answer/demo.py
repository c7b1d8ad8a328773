"""Questions made by code: who has how many of what. A third of them have no answer. No download."""

import numpy as np

from recipes.answer.squad import Question, Questions
from recipes.engine.numbers import SPLITS, assign_numbers, number_in_words, number_up_to

NAMES = "Ann Bob Carla David Emma Frank".split()
THINGS = "apples books coins doors eggs flags games hats".split()


def number_questions(train_size=6_000, validation_size=400, test_size=400, seed=0):
    """Makes the splits "train", "validation" and "test": `Questions`. It needs num2words.

    A context says how many of some things three people have. A question without answer is about another person. The
    numbers of the three splits are disjoint.

    >>> task = number_questions(3, 3, 3)
    >>> [bool(row.answers) for row in task["train"].rows]
    [True, True, False]
    """
    sizes = dict(zip(SPLITS, (train_size, validation_size, test_size), strict=True))
    split_of = assign_numbers(seed)
    questions = {}
    for split, (name, size) in enumerate(sizes.items()):
        rng = np.random.default_rng([seed, split, 4])
        rows = [_question(rng, f"{name}{index}", index % 3 < 2, split_of == split) for index in range(size)]
        questions[name] = Questions(rows, f"number questions, {name}")
    return questions


def _question(rng, name, has_answer, is_here):
    people, things = rng.choice(NAMES, 3, replace=False), rng.choice(THINGS, 3)
    asked = int(rng.integers(3))
    context, answers = "", ()
    for index, (person, thing) in enumerate(zip(people, things, strict=True)):
        begin, amount = f"{person} has ", _amount(rng, is_here)
        if has_answer and index == asked:
            answers = ((amount, len(context) + len(begin)),)
        context += f"{begin}{amount} {thing}. "
    person = people[asked] if has_answer else rng.choice([candidate for candidate in NAMES if candidate not in people])
    return Question(name, f"How many {things[asked]} does {person} have?", context.strip(), answers)


def _amount(rng, is_here):
    """Returns a number of a split in words."""
    while True:
        number = number_up_to(rng, 3)
        if number > 1 and is_here[number]:
            return number_in_words(number, "en")
