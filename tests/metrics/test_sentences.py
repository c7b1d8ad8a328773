from keras_headattn.metrics import bleu, words


def test_words():
    assert words("Don't  stop_here: 3.5 Ärzte!") == ["don", "t", "stop", "here", "3", "5", "ärzte"]
    assert words(" ...") == []


def test_composed_and_decomposed_letters_are_the_same():
    assert words("u\u0308ber") == words("über") == ["über"]


def test_any_iterables_of_sentences():
    assert bleu(iter(["a b c d"]), ("a b c d",)).value == bleu(["a b c d"], ["a b c d"]).value
