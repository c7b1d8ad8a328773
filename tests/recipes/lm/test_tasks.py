"""Tasks of language models: their files, their scores, and those made by code."""

import json
import math
import re
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.models import CausalLM
from keras_headattn.text import ByteTokenizer, CharacterTokenizer
from recipes.engine.run import Run
from recipes.lm.__main__ import RECIPE
from recipes.lm.configs import heads
from recipes.lm.scoring import continuation_losses, exponential, interval_of, score_synthetic, score_text, write_task
from recipes.lm.settings import LmConfig
from recipes.lm.synthetic import COUNTS, TASKS
from recipes.lm.tasks import read_task, read_tasks, score_items
from recipes.lm.train import make_model
from tests.refusals import refused

BLIMP = [
    dict(sentence_good="the cats sleep", sentence_bad="the cats sleeps", field="morphology", UID="agreement"),
    dict(sentence_good="who left?", sentence_bad="left who?", field="syntax/semantics", UID="questions"),
]
CHOICES = [
    dict(query="Two and two are", choices=["three", "four"], gold=1),
    dict(query="A cat is\n", choices=["an animal", "a stone", "blue"], gold=0),
    dict(query="Q: ü? A: ", choices=["ü", "é"], gold=0),
]
SCHEMA = [dict(context_options=["The cat, since the cat", "The cat, since the stone"], continuation="is soft", gold=0)]
ENDS = [dict(context="one, two, three,", continuation="four"), dict(context="five, six,", continuation=" seven")]


def write(path, items):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return str(path)


@pytest.fixture(scope="module")
def model():
    return CausalLM(257, num_layers=1, hidden_dim=16, num_heads=2, seed=0)


def test_files_of_tasks(tmp_path):
    for name, items in {"blimp/a": BLIMP[:1], "blimp/b": BLIMP[1:], "piqa": CHOICES, "ends": ENDS}.items():
        write(tmp_path / f"{name}.jsonl", items)
    tasks = read_tasks([tmp_path, write(tmp_path / "schema.txt", SCHEMA)])
    assert {name: len(items) for name, items in tasks.items()} == {
        "blimp": 2, "ends": 2, "piqa": 3, "schema.txt": 1
    }  # fmt: skip
    assert (
        tasks["blimp"][1].options == (("", "who left?"), ("", "left who?"))
        and tasks["blimp"][1].field == "syntax_semantics"
    )
    assert tasks["piqa"][1].options[2] == ("A cat is", "\nblue")  # blanks belong to what follows
    assert tasks["piqa"][2].options[0] == ("Q: ü? A:", " ü") and tasks["piqa"][0].options[1][1] == " four"
    assert tasks["schema.txt"][0].options[1] == ("The cat, since the stone", " is soft")


def test_shots(tmp_path):
    """Other items stand before, with their right answers, and never the item itself."""
    path = write(tmp_path / "piqa.jsonl", CHOICES)
    shown = {"Two and two are four\n", "A cat is\nan animal\n", "Q: ü? A: ü\n"}
    for item, plain in zip(read_tasks([path], 2)["piqa"], read_task(path), strict=True):
        before = item.options[0][0].removesuffix(plain.options[0][0])
        first, second = shown - {"".join(plain.options[plain.gold]) + "\n"}
        assert before in (first + second, second + first)
    assert read_tasks([path], 2, seed=1) == read_tasks([path], 2, seed=1)
    with refused("--shots", "3 of 3"):
        read_tasks([path], 3)
    (tmp_path / "empty").mkdir()
    with refused("--tasks", f"{tmp_path / 'empty'}, without one"):
        read_tasks([tmp_path / "empty"])


@pytest.mark.parametrize("line", [
    "", "no JSON", "[1]", "{}", '{"sentence_good": "a"}', '{"query": "a", "choices": ["b"], "gold": 0}',
    '{"query": "a", "choices": ["b", "c"], "gold": 2}', '{"query": "a", "choices": ["b", ""], "gold": 0}',
    '{"context": " ", "continuation": "b"}', '{"context_options": ["a", 1], "continuation": "b", "gold": 0}',
])  # fmt: skip
def test_lines_that_are_no_items(line, tmp_path):
    (tmp_path / "task.jsonl").write_text(json.dumps(ENDS[0]) + f"\n{line}\n")
    with refused("A task must have an object a line", f"{line} in line 2"):
        read_task(tmp_path / "task.jsonl")


@pytest.mark.parametrize("length", [64, 12])
def test_losses_of_what_follows(model, length):
    """Against one pass for each token, over at most `length` tokens before it."""
    options = [(item["context"], " " + item["continuation"].strip()) for item in ENDS]
    options += [("", "a sentence that is longer than the others"), ("ü", " é")]
    losses, hits = continuation_losses(model, ByteTokenizer(), options, length, batch_size=3)
    for (context, end), loss, hit in zip(options, losses, hits, strict=True):
        ids = [256, *(context + end).encode()][-length - 1 :]
        count = min(length, len(end.encode()))
        expected, right = 0.0, True
        for place in range(len(ids) - count, len(ids)):
            logits = np.asarray(model(np.array([ids[:place]])))[0, -1].astype("float64")
            expected += np.log(np.exp(logits).sum()) - logits[ids[place]]
            right &= logits.argmax() == ids[place]
        assert loss == pytest.approx(expected, rel=1e-5) and hit == right


def test_a_tokenizer_without_marks_does_not_score_the_first_token(model):
    tokenizer = CharacterTokenizer(sorted("abcd"))
    (loss, other), _ = continuation_losses(model, tokenizer, [("", "abcd"), ("a", "bcd")], 8, 2)
    assert loss == pytest.approx(other, rel=1e-6)


def test_scores(tmp_path):
    """By hand, from losses that are given."""
    choices = read_task(write(tmp_path / "a", CHOICES))
    scores = score_items(choices, [5.0, 3.9, 6.3, 5.0, 4.0, 2.0, 2.0], [False] * 7)
    assert scores["accuracy"].tolist() == [1, 0, 1]  # the first of two equals
    assert scores["accuracy_by_characters"].tolist() == [1, 1, 1]
    assert scores["accuracy_by_bytes"].tolist() == [1, 1, 1]
    chance = (1 / 2 + 1 / 3 + 1 / 2) / 3
    assert scores["centred_accuracy"].mean() == pytest.approx((2 / 3 - chance) / (1 - chance))
    pairs = score_items(read_task(write(tmp_path / "b", BLIMP)), [3, 2, 1, 2], [False] * 4)
    assert {name: values.tolist() for name, values in pairs.items()} == {
        "accuracy": [0, 1], "accuracy morphology": [0], "accuracy syntax_semantics": [1]
    }  # fmt: skip
    ends = score_items(read_task(write(tmp_path / "c", ENDS)), [3, 1], [False, True])
    assert {name: values.mean() for name, values in ends.items()} == {"accuracy": 0.5, "loss": 2}


def test_intervals():
    """The bootstrap's is near that of the normal distribution, and each of 100 has the mean in 95 of them."""
    rng = np.random.default_rng(0)
    samples = rng.normal(3, 2, (100, 200))
    low, high = interval_of(samples[0])
    assert (low + high) / 2 == pytest.approx(samples[0].mean(), abs=0.05)
    assert high - low == pytest.approx(2 * 1.96 * 2 / math.sqrt(200), rel=0.15)
    assert 88 <= sum(low <= 3 <= high for low, high in map(interval_of, samples)) <= 99
    assert interval_of(samples[0, :19]) is None and len(interval_of(samples[0, :20])) == 2


def test_few_items_and_large_losses(tmp_path, capsys):
    write_task(Run(tmp_path, RECIPE), "ends", {"accuracy": np.ones(3), "loss": np.full(3, 800.0)})
    assert capsys.readouterr().out == "ends: accuracy 1.0000, loss 800.0000, perplexity inf\n"
    assert exponential(700.0, [1.0, 710.0]) == (pytest.approx(math.exp(700)), [pytest.approx(math.e), math.inf])


def test_the_interval_of_a_text_has_its_loss(model):
    text = " ".join(map(str, range(300)))
    for loss, (low, high) in score_text(
        model, ByteTokenizer(), LmConfig(train=("a",), length=32, batch_size=4), "text", [text]
    ).values():
        assert low < loss < high


def test_bits_are_of_bytes_not_of_tokens(model):
    text, config = "äöü€" * 20, LmConfig(train=("a",), length=32, batch_size=4)
    scores = score_text(model, CharacterTokenizer(sorted(set(text))), config, "text", [text])
    count = len(text.encode()) - len("ä".encode())  # nothing predicts the first token
    assert scores["bits_per_byte"][0] == pytest.approx(scores["loss"][0] / math.log(2) * (len(text) - 1) / count)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_blocks(seed):
    """One block alone has both letters, and is the answer."""
    task = TASKS["blocks"]
    for line in task.text(30, seed).splitlines():
        blocks, _, rest = line.partition("#")
        letters, answer = rest[:2], rest[2:]
        assert [block for block in blocks.split(".") if set(letters) <= set(block)] == [answer]
        assert all(len(set(block)) == 5 for block in blocks.split(".")) and len(set(letters)) == 2
        assert len(line) + 1 == task.length == 80 and "".join((line + "\n")[1:][task.answers]) == answer


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_recall(seed):
    task = TASKS["recall"]
    for line in task.text(30, seed).splitlines():
        shown, asked = (dict(re.findall("([a-z])([A-Z])", part)) for part in line.split("#"))
        assert shown == asked and len(shown) == 16 and set(shown) <= {*string.ascii_lowercase}
        assert "".join((line + "\n")[1:][task.answers]) == "".join(asked.values())
        assert len(line) + 1 == task.length


def test_examples_do_not_repeat():
    for task in TASKS.values():
        texts = [set(task.text(2_000, i).splitlines()) for i in range(len(COUNTS))]
        assert sum(map(len, texts)) == len(set.union(*texts)) == 6_000


@pytest.mark.parametrize("name", TASKS)
def test_a_right_answer_is_all_of_it(name):
    """A model that knows some answers but for a token of one."""
    task, tokenizer = TASKS[name], ByteTokenizer()
    text = task.text(6, 0)
    rows = tokenizer([text]).numpy().reshape(6, -1)
    known = np.concatenate([rows[:4], np.zeros((2, task.length), "int32")])
    known[1, task.answers.indices(task.length)[0] + 1] += 1

    def model(inputs, training):
        import tensorflow as tf

        places = tf.argmax(tf.reduce_all(inputs[:, None] == rows[None, :, :-1], -1), axis=1, output_type=tf.int32)
        return tf.one_hot(tf.gather(tf.constant(known), places)[:, 1:], 257)

    config = LmConfig(synthetic=name, batch_size=4)
    assert score_synthetic(model, tokenizer, config, text)["exact_match"][0] == 0.5


def test_models_of_the_table_have_equal_parameters():
    """All rows differ from multi-head attention by less than half a per cent, with learned and rotary positions."""
    for table, data in (("lm_heads", {"train": ("a",)}), ("lm_heads_rotary", {"train": ("a",)})):
        counts = {}
        for name, row in heads.TABLES[table].rows.items():
            config = LmConfig(size="nano_cpu", length=64).changed(data).changed(row)
            two = config.changed({"model_arguments": config.model_arguments | {"num_layers": 2}})
            model = make_model(two, 65)
            model.build()
            counts[name] = model.count_params() + 2 * model.blocks[-1].count_params()  # of four blocks
        assert counts["multi_head"] in (804_096, 795_904)
        assert max(abs(count / counts["multi_head"] - 1) for count in counts.values()) < 0.005, counts
