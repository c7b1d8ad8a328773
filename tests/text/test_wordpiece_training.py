from keras_headattn.text import WordPieceTokenizer, learn_wordpieces

TEXTS = ["Twenty-one cats", "twenty two cats", "thirty-one dogs", "Thirty dogs É"] * 3


def test_pieces_spell_every_word():
    pieces = learn_wordpieces(iter(TEXTS), 60)
    assert pieces == learn_wordpieces(TEXTS, 60) and len(pieces) <= 60
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"e", "##e", "-"} < set(pieces) and not {"T", "É"} & set(pieces)
    tokenizer = WordPieceTokenizer(pieces)
    assert all(tokenizer.unk_id not in ids for ids in tokenizer.encode([*TEXTS, "sixty-gnats"[:1]]))
    assert tokenizer.detokenize(tokenizer(TEXTS[1:2])).numpy().tolist() == [b"twenty two cats"]
    assert "É" in learn_wordpieces(TEXTS, 70, lowercase=False)


def test_no_more_than_asked_for():
    smallest = len(learn_wordpieces(["abc abd"], 13))
    assert smallest == 13 == 5 + 2 * 4
