import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_headattn.data import pad_ids
from keras_headattn.decoding import Shortlist
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import T5, Transformer
from keras_headattn.positions import LearnedPositions
from keras_headattn.serving import Translation, Translator
from keras_headattn.text import LanguagePair, MosesPreprocessor, SentencePieceTokenizer

ENGLISH = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
GERMAN = ["die Katze saß auf der Matte", "ein Hund lief der Katze nach", "keine Katze saß still"]
OPTIONS = dict(beam_size=2, max_length=8, jit_compile=False)


def make_model(**options):
    attention = MultiHeadAttention(2, 8)
    model = Transformer(40, attention=attention, num_layers=1, hidden_dim=16, intermediate_dim=32, **options)
    model.build()
    random = np.random.default_rng(3)
    for weight in model.trainable_weights:  # large ones, so that translations differ
        if weight.name not in ("gamma", "beta"):
            weight.assign(random.normal(size=weight.shape) * 4 / weight.shape[-1] ** 0.5)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    LanguagePair.learn(folder, (ENGLISH, GERMAN), 40)
    return folder


@pytest.fixture
def tokenizer(folder):
    # Made anew for each test: `keras.backend.clear_session` frees what tensorflow-text holds for it.
    return SentencePieceTokenizer(folder / "vocabulary.model")


@pytest.fixture
def translate(tokenizer):
    return Translator(make_model(), tokenizer, tokenizer, max_source_length=32, batch_size=2, **OPTIONS)


def expected(translate, ids):
    """Texts and scores of ids that are searched in one batch."""
    found = translate.searcher(pad_ids(ids, len(ids), max(map(len, ids))))
    return translate.text.decode(found["tokens"][:, 0]), found["scores"][:, 0].numpy()


def test_many_lengths_are_searched_without_a_warning(tokenizer, caplog):
    translate = Translator(
        make_model(), tokenizer, tokenizer, 2, max_length=2, max_source_length=512, jit_compile=False
    )
    translate(["cat " * count for count in (2, 8, 16, 32, 64, 128)])
    assert len(translate.buckets) == 6 and caplog.text == ""


@pytest.mark.parametrize("given, start_id, suppress", [({}, 0, (7,)), ({"start_id": 5, "suppress": [6]}, 5, (6,))])
def test_t5_with_a_tokenizer_of_its_own(folder, given, start_id, suppress):
    """It has no begin-of-sentence symbol: a T5 starts from padding."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH + GERMAN), model_prefix=str(folder / "t5"), vocab_size=36, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    tokenizer = SentencePieceTokenizer(folder / "t5.model")
    assert tokenizer.bos_id == -1
    model = T5(40, 16, 32, num_layers=1, num_heads=2, key_dim=8, suppress=[7])
    translate = Translator(model, tokenizer, tokenizer, max_source_length=32, **OPTIONS, **given)
    assert (translate.searcher.start_id, translate.searcher.suppress) == (start_id, suppress)
    texts, _ = expected(translate, tokenizer.encode(ENGLISH[:1]))
    assert [translation.text for translation in translate(ENGLISH[:1])] == texts


def test_translations_are_those_of_the_search(translate, tokenizer):
    sentences = [ENGLISH[0], " ", ENGLISH[1] + " no", "", ENGLISH[2]]
    done = []
    found = translate(sentences, done.append)
    assert found[1] == found[3] == Translation("", 0.0) and len(done) == 2 and done[-1] == 5
    real = [place for place in range(5) if sentences[place].strip()]
    texts, scores = expected(translate, tokenizer.encode([sentences[place] for place in real]))
    assert [found[place].text for place in real] == texts and len(set(texts)) > 1
    np.testing.assert_allclose([found[place].score for place in real], scores, rtol=1e-4)
    assert not any(translation.is_cut for translation in found)
    [alone] = translate(sentences[:1])
    assert alone.text == texts[0] and alone.score == pytest.approx(scores[0], rel=1e-4)
    assert translate([]) == []


def test_long_sentences_are_cut_and_say_so(tokenizer):
    translate = Translator(make_model(), tokenizer, tokenizer, max_source_length=9, **OPTIONS)
    sentences = ["the cat", *ENGLISH]
    ids = tokenizer.encode(sentences)
    assert translate.buckets == (9,) and max(map(len, ids)) > 9 >= len(ids[0])
    found = translate(sentences)
    assert [translation.is_cut for translation in found] == [len(row) > 9 for row in ids]
    texts, scores = expected(translate, [row if len(row) <= 9 else [*row[:8], tokenizer.eos_id] for row in ids])
    assert [translation.text for translation in found] == texts
    np.testing.assert_allclose([translation.score for translation in found], scores, rtol=1e-4)


@pytest.mark.parametrize(
    "positions, options, buckets",
    [
        (None, {}, (16,)),
        (None, {"max_length": 20}, (16, 32, 64)),
        (None, {"max_source_length": 40}, (16, 32, 40)),
        (12, {}, (12,)),
        (24, {"max_length": 20}, (16, 24)),
        (24, {"max_source_length": 20}, (16, 20)),
    ],
)
def test_lengths_of_sources(tokenizer, positions, options, buckets):
    """No more than the model has positions."""
    model = make_model(positions=LearnedPositions(positions)) if positions else make_model()
    translate = Translator(model, tokenizer, tokenizer, **OPTIONS | options)
    assert translate.buckets == buckets and translate.max_source_length == buckets[-1]


def test_prefixes(translate, tokenizer):
    prefixes = ["die K", "", "ein"]
    found = translate(ENGLISH, prefixes=prefixes)
    assert all(each.text.startswith(prefix) for each, prefix in zip(found, prefixes, strict=True))
    assert found[1].text == translate(ENGLISH)[1].text


def test_several_translations_of_a_sentence(tokenizer):
    translate = Translator(make_model(), tokenizer, tokenizer, num_hypotheses=2, max_source_length=32, **OPTIONS)
    for found in translate(ENGLISH):
        (other,) = found.others
        assert other.text != found.text and other.score <= found.score


def test_samples(tokenizer):
    translate = Translator(make_model(), tokenizer, tokenizer, num_samples=3, temperature=2.0, seed=4, **OPTIONS)
    found = translate(ENGLISH)
    assert found == translate(ENGLISH) and len(found[0].others) == 2
    assert len({found[0].text, *(other.text for other in found[0].others)}) > 1


def test_unknown_pieces_are_copied_from_the_source(tokenizer, monkeypatch):
    sentence, words = "the ★ cat", tokenizer.encode(["die Katze"])[0].tolist()[:-1]
    pieces = tokenizer.encode_pieces(sentence)
    assert pieces == ["▁the", "▁", "★", "▁cat", "</s>"] and len(tokenizer.encode([sentence])[0]) == len(pieces)
    tokens = [tokenizer.unk_id, *words, tokenizer.unk_id, tokenizer.eos_id]
    places = np.zeros((8, 16))
    places[0, 3] = places[1 + len(words), 2] = 0.5
    places[:, 4:] = 0.9  # of the end symbol and of padding, which are not copied

    def attention(layers):
        (found,) = [each["weights"] for path, each in layers.items() if path.endswith("cross_attention")]
        assert found.shape == (1, 2, 8, 16)
        return tf.constant(places[None])

    for replace, text in ((True, "cat die Katze★"), (False, "⁇ die Katze ⁇")):
        translate = Translator(make_model(), tokenizer, tokenizer, replace_unknown=replace, **OPTIONS)
        result = {"tokens": tf.constant(pad_ids([tokens], 1, 8))[:, None], "scores": tf.zeros((1, 1))}
        monkeypatch.setattr(translate, "_search_of", lambda *args, result=result: lambda *args: result)
        monkeypatch.setattr("keras_headattn.serving._translator.cross_attention", attention)
        assert translate([sentence])[0].text.split() == text.split()


def test_shortlists(tokenizer):
    table = np.random.default_rng(0).integers(4, 40, (40, 3)).astype("int32")
    shortlist = Shortlist(table, always=[4, 5, 6], size=12)
    translate = Translator(make_model(), tokenizer, tokenizer, shortlist=shortlist, **OPTIONS)
    for sentence in ENGLISH:
        ids = tokenizer.encode([sentence])
        among = shortlist.ids(np.array(ids))
        others = [token for token in range(40) if token not in (3, *among)]
        plain = Translator(make_model(), tokenizer, tokenizer, suppress=others, **OPTIONS)
        (found,), (expected,) = translate([sentence]), plain([sentence])
        assert found.text == expected.text and found.score == pytest.approx(expected.score, rel=1e-4)
    assert translate(ENGLISH[:1], prefixes=["kein"])[0].text.startswith("kein")


def test_scores_of_tokens(tokenizer):
    translate = Translator(
        make_model(), tokenizer, tokenizer, alpha=0.0, suppress=[0], return_token_scores=True, **OPTIONS
    )
    for found in translate(ENGLISH):
        assert sum(score for _, score in found.token_scores) == pytest.approx(found.score, rel=1e-4)


def test_scores_of_given_translations(translate, tokenizer):
    found = translate.score(ENGLISH, GERMAN)
    assert [each.text for each in found] == GERMAN and not any(each.is_cut for each in found)
    for source, target, scored in zip(tokenizer.encode(ENGLISH), tokenizer.encode(GERMAN), found, strict=True):
        inputs = {"source": source[None], "target": np.append(2, target[:-1])[None]}
        logits = np.asarray(translate.searcher.model(inputs))[0].astype("float64")
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = log_probs[np.arange(len(target)), target]
        assert [token for token, _ in scored.token_scores] == [tokenizer.id_to_token(int(token)) for token in target]
        np.testing.assert_allclose([score for _, score in scored.token_scores], expected, atol=1e-3)
        assert scored.score == pytest.approx(expected.sum(), rel=1e-4)


def test_as_many_positions_as_tokens(tokenizer):
    longest = max(map(len, tokenizer.encode(GERMAN)))
    translate = Translator(make_model(positions=LearnedPositions(longest)), tokenizer, tokenizer, **OPTIONS)
    assert [each.text for each in translate.score(ENGLISH, GERMAN)] == GERMAN


def test_steps_before_and_after(tokenizer):
    """They are those of Moses, around the same search."""
    pytest.importorskip("sacremoses")
    model, moses = make_model(), [MosesPreprocessor("en"), MosesPreprocessor("de")]
    moses[1].undo = lambda sentences: [f"<{sentence}>" for sentence in sentences]
    with_steps = Translator(model, tokenizer, tokenizer, source_moses=moses[0], target_moses=moses[1], **OPTIONS)
    without = Translator(model, tokenizer, tokenizer, **OPTIONS)
    assert [found.text for found in with_steps(["the cat, the mat"])] == [
        f"<{found.text}>" for found in without(["the cat , the mat"])
    ]
