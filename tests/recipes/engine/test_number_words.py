from recipes.engine.number_words import LANGUAGES, number_words


def test_languages_come_in_turn_and_splits_are_disjoint():
    task = number_words(480, 120, 120, seed=1)
    assert [len(task[split]) for split in ("train", "validation", "test")] == [480, 120, 120]
    assert all(task["test"].labels.count(name) == 10 for name in LANGUAGES.values())
    texts = [set(part.texts) for part in task.values()]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert number_words(12, 12, 12, seed=1)["train"].texts == task["train"].texts[:12]
    assert number_words(12, 12, 12, seed=2)["train"].texts != task["train"].texts[:12]
