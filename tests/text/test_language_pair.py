import numpy as np
import pytest

from keras_headattn.text import LanguagePair
from tests.refusals import refused

SENTENCES = (["the cat sat", "a dog ran"], ["die Katze saß", "ein Hund lief"])


def test_what_is_missing_is_learned_and_the_rest_is_loaded(tmp_path):
    pair = LanguagePair.learn(tmp_path, SENTENCES, 30)
    assert pair.source is pair.target and pair.source.vocabulary_size == 30
    assert [path.name for path in tmp_path.iterdir()] == LanguagePair.file_names() == ["vocabulary.model"]
    again = LanguagePair.learn(tmp_path)
    for sentences, encode, other in zip(
        SENTENCES, (pair.encode_source, pair.encode_target), (again.encode_source, again.encode_target), strict=True
    ):
        for ids, others in zip(encode(sentences), other(sentences), strict=True):
            np.testing.assert_array_equal(ids, others)
            assert ids[-1] == pair.target.eos_id
    assert pair.decode(pair.target(SENTENCES[1])) == SENTENCES[1]


def test_a_vocabulary_for_each_language(tmp_path):
    pair = LanguagePair.learn(
        tmp_path, SENTENCES, 22, target_vocabulary_size=26, shared_vocabulary=False, lowercase=True
    )
    assert (pair.source.vocabulary_size, pair.target.vocabulary_size) == (22, 26)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(LanguagePair.file_names(False))
    assert pair.decode(pair.target(["Die KATZE"])) == pair.references(["Die KATZE"]) == ["die katze"]
    (tmp_path / "target.model").unlink()
    with refused("no target.model", "sentences=None"):
        LanguagePair.learn(tmp_path, shared_vocabulary=False)


def test_steps_of_moses_come_before_and_are_undone(tmp_path):
    pytest.importorskip("sacremoses")
    sentences = (["It works, it does.", "See, it works."], ["Es geht, es geht.", "Sieh, es geht."])
    options = dict(languages=("en", "de"), truecase=True)
    pair = LanguagePair.learn(tmp_path, sentences, 30, **options)
    names = LanguagePair.file_names(moses=True)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir()) and "moses.target.json" in names
    assert pair.prepare_source(["It works, it does."]) == ["it works , it does ."]
    ids = pair.encode_target(["Es geht, es geht."])
    assert pair.decode(np.array(ids)) == ["Es geht, es geht."]
    assert pair.target.detokenize(np.array(ids)).numpy() == [b"es geht , es geht ."]
    (tmp_path / "moses.source.json").unlink()
    with refused("no moses.source.json", "sentences=None"):
        LanguagePair.learn(tmp_path, **options)
