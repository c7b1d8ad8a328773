"""The parts of GLUE's recipe: files, settings, scores, submissions, tasks made by code."""

import dataclasses
import json
import os
import pathlib
import types
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from sklearn import metrics

from keras_headattn.data import LabelledText
from recipes.engine.config import override
from recipes.engine.encoders import fine_tuning_optimizer, kind_of, make_tokenizer
from recipes.engine.run import Run
from recipes.glue import glue_files, text_to_text
from recipes.glue.__main__ import RECIPE
from recipes.glue.configs import glue as table
from recipes.glue.data import read_corpora, read_tests, read_unlabelled
from recipes.glue.demo import (
    COUNTS,
    in_digits,
    in_words,
    number_sentences,
    number_tasks,
    swap_words,
    swapped_words,
)
from recipes.glue.glue_files import read_file, read_split, read_tfds_split
from recipes.glue.glue_tasks import MAJORITY, SUBMISSION, TASKS, mean_score
from recipes.glue.label_texts import LabelTexts, WrittenClasses, WrittenNumbers
from recipes.glue.modelling import make_classifier
from recipes.glue.scores import ClassScore, NumberScore
from recipes.glue.settings import GlueConfig
from recipes.glue.submission import check_file, clipped, collect, predict_tests, rows_text, write_zip
from recipes.glue.targets import targets_of
from recipes.glue.train import check, make_model
from tests.recipes.commands import train_here
from tests.refusals import refused

SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", "../shared"))
HEADERS = {
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "sst2": "sentence\tlabel",
    "rte": "index\tsentence1\tsentence2\tlabel",
}


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(tmp_path, task, *lines, split="train"):
    return read_file(write(tmp_path / "file.tsv", *lines), TASKS[task], split)


def test_cola_has_no_header_but_in_its_test_set(tmp_path):
    corpus = read(tmp_path, "cola", 'gj04\t1\t\tHe said "no.', "gj04\t0\t*\tHe no said.")
    assert corpus.texts == ['He said "no.', "He no said."] and corpus.labels == ["1", "0"]
    corpus = read(tmp_path, "cola", "index\tsentence", "0\tBill is here.", split="test")
    assert corpus.texts == ["Bill is here."] and corpus.labels == [""] and corpus.second_texts is None


def test_quotes_byte_order_mark_and_short_rows(tmp_path, capsys):
    rows = [
        '1\t1\t2\t"A film" it is\tA "film',
        "0\t3\t4\tA cat",
        "2\t5\t6\tA\tB",
        "",
        "1\t7\t8\t\tB",
        "0\t9\t9\tC\tD\r",
    ]
    corpus = read(tmp_path, "mrpc", HEADERS["mrpc"], *rows)
    assert corpus.texts == ['"A film" it is', "C"] and corpus.second_texts == ['A "film', "D"]
    assert corpus.labels == ["1", "0"]
    printed = capsys.readouterr().out
    assert "3 of 5 rows are damaged and left out: line 3 has 4 columns of 5; line 4 has the label '2'" in printed
    assert "line 6 has no text" in printed


def test_test_sets_keep_their_rows(tmp_path, capsys):
    """A submission has a row for each row, whole or not."""
    corpus = read(tmp_path, "qqp", "id\tquestion1\tquestion2", "0\tWho?\tWhat?", "1\tWhere?", split="test")
    assert corpus.second_texts == ["What?", ""] and "predicted all the same" in capsys.readouterr().out


def test_a_table_of_other_columns(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("a cat,a dog,2.5\n" * 9)
    with refused("sentence1 in column 8, sentence2 in column 9, the label in column 10", "line 1 has 1 columns alone"):
        read_file(tmp_path / "x.csv", TASKS["stsb"])
    assert capsys.readouterr().out == ""


def test_labels_of_all_tasks(tmp_path):
    row = "0\tg\tf\ty\to\ts\ts\tA cat.\tA dog.\t"
    assert read(tmp_path, "stsb", HEADERS["stsb"], row + "3.750", row + "none").labels == ["3.750"]
    mnli = ["0", "p", "id", "g", "b1", "b2", "p1", "p2", "A cat.", "A dog."]
    for labels in (["neutral", "entailment"], ["neutral"] * 5 + ["entailment"]):
        names = [*("index promptID pairID genre b1 b2 p1 p2 s1 s2".split()), *(f"label{i}" for i in range(len(labels)))]
        corpus = read(tmp_path, "mnli", "\t".join(names), "\t".join(mnli + labels))
        assert corpus.labels == ["entailment"] and corpus.second_texts == ["A dog."]
    assert read(tmp_path, "rte", HEADERS["rte"], "0\tA\tB\tnot_entailment").labels == ["not_entailment"]
    assert read(tmp_path, "sst2", HEADERS["sst2"], "sentence of a film\t1").texts == ["sentence of a film"]
    assert read(tmp_path, "sst2", "good \t1").texts == ["good"]  # without a header
    with refused("no whole row of RTE", "line 2 has 1 columns of 4"):
        read(tmp_path, "rte", HEADERS["rte"], "0")


def test_the_folder_of_glue(tmp_path, capsys):
    write(tmp_path / "MNLI" / "train.tsv", "index\t" + "x\t" * 10 + "gold_label", "0\t" + "x\t" * 10 + "neutral")
    for name in ("dev_matched", "dev_mismatched"):
        row = "x\t" * 7 + f"{name}\tB\t" + "x\t" * 5
        write(tmp_path / "MNLI" / f"{name}.tsv", "index\t" + "x\t" * 14 + "gold_label", f"0\t{row}entailment")
    write(tmp_path / "MNLI" / "test_matched.tsv", "index\t" + "x\t" * 8 + "sentence2", "0\t" + "x\t" * 7 + "A\tB")
    write(tmp_path / "diagnostic" / "diagnostic.tsv", "index\tsentence1\tsentence2", "0\tC\tD")
    config = GlueConfig(task="mnli", glue=str(tmp_path))
    corpora = read_corpora(config)
    assert list(corpora.tests) == ["dev_matched", "dev_mismatched"]
    assert corpora.validation.texts == ["dev_matched"] and corpora.train.labels == ["neutral"]
    unlabelled = read_unlabelled(config.glue_task, config.glue)
    assert {name: corpus.texts for name, corpus in unlabelled.items()} == {"MNLI-m": ["A"], "AX": ["C"]}
    assert "MNLI-m has 9,796 test rows in GLUE. Received: 1" in capsys.readouterr().out
    with refused("CoLA needs a file train.tsv", tmp_path, FileNotFoundError):
        read_corpora(GlueConfig(task="cola", glue=str(tmp_path)))
    (tmp_path / "MNLI" / "train.tsv").unlink()  # nothing but training needs it
    assert list(read_tests(config)) == ["dev_matched", "dev_mismatched"]
    (tmp_path / "MNLI" / "test_matched.tsv").write_text("damaged")
    assert list(read_unlabelled(config.glue_task, config.glue, without=["MNLI-m"])) == ["AX"]


def test_mrpc_as_microsoft_has_it(tmp_path, monkeypatch, capsys):
    rows = [f"{i % 2}\t{i}\t{i + 50}\tA {i}\tB {i}" for i in range(10)]
    write(tmp_path / "msr_paraphrase_train.txt", HEADERS["mrpc"], *rows)
    write(tmp_path / "msr_paraphrase_test.txt", HEADERS["mrpc"], *rows[:3])
    monkeypatch.setattr(glue_files, "NUM_DEV", 4)
    train, dev = (read_split(tmp_path, TASKS["mrpc"], split) for split in ("train", "dev"))
    assert len(dev) == 4 and sorted(train.texts + dev.texts) == [f"A {i}" for i in range(10)]
    assert capsys.readouterr().out.count("chosen by seed 0, are the dev set") == 1
    write(tmp_path / "mrpc_dev_ids.tsv", "3\t53", "7\t57")
    assert read_split(tmp_path, TASKS["mrpc"], "dev").texts == ["A 3", "A 7"]
    assert len(read_split(tmp_path, TASKS["mrpc"], "train")) == 8
    assert read_split(tmp_path, TASKS["mrpc"], "test").labels == [""] * 3


def test_files_of_ones_own_in_a_tasks_columns(tmp_path):
    rows = [f"s\t{i % 2}\t\ttext {i}" for i in range(20)]
    train, dev = write(tmp_path / "mine.tsv", *rows), write(tmp_path / "held.tsv", *rows[:6])
    config = override(GlueConfig(), dict(task="cola", train=(str(train),), validation=(str(dev), str(dev))))
    corpora = read_corpora(config)
    assert (len(corpora.train), len(corpora.validation), list(corpora.tests)) == (20, 12, ["dev"])
    corpora = read_corpora(dataclasses.replace(config, validation=("0.25",), test=(str(dev),)))
    assert (len(corpora.train), len(corpora.validation), list(corpora.tests)) == (15, 5, ["held"])
    assert len(read_tests(config, [str(dev)])["held"]) == 6


def test_tensorflow_datasets(monkeypatch):
    """Labels are those of the files, and tests are in the order of their numbers."""

    def read_tfds(name, split, text, label, second=None):
        labels = ["2", "0", "1"] if label == "idx" else ["duplicate", "not_duplicate", "duplicate"]
        assert (name, text, second) == ("glue/qqp", "question1", "question2")
        return LabelledText(["c", "a", "b"], labels, name, ["C", "A", "B"])

    monkeypatch.setattr(glue_files, "read_tfds_labelled", read_tfds)
    assert read_tfds_split(TASKS["qqp"], "validation").labels == ["1", "0", "1"]
    assert read_tfds_split(TASKS["qqp"], "test", is_test=True).second_texts == ["A", "B", "C"]
    assert GlueConfig(tfds="glue/qqp").task == "qqp"


@pytest.mark.parametrize(
    "task, path, count",
    [
        ("cola", "cola/cola_public/raw/in_domain_train.tsv", 8551),
        ("sst2", "sst2_sick/sentiment-train", 67349),
        ("wnli", "wnli/dev.tsv", 71),
        ("wnli", "wnli/val.tsv", 117),
        ("qnli", "qnli/dev.tsv", 5463),
    ],
)
def test_real_files(task, path, count, capsys):
    path = SHARED / "data" / path
    if not path.exists():
        pytest.skip(f"needs {path}: set HEADATTN_SHARED")
    corpus = read_file(path, TASKS[task])
    assert len(corpus) == count and set(corpus.labels) == set(TASKS[task].labels)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name, rows", [("wnli", 146), ("qnli", 5463)])
def test_real_test_sets(name, rows):
    folder = SHARED / "data" / name
    if not folder.exists():
        pytest.skip(f"needs {folder}: set HEADATTN_SHARED")
    assert len(read_split(folder, TASKS[name], "test")) == rows == next(iter(TASKS[name].submissions.values()))


def test_a_checkpoint_takes_the_place_of_a_size_and_of_pretraining():
    small = GlueConfig().changed({"size": "bert_tiny", "built_in": True, "pretraining_epochs": 2})
    given = small.changed({"checkpoint": "MODEL"})
    assert (given.checkpoint, given.size, given.pretraining_epochs) == ("MODEL", None, 0)
    assert given.changed({"size": "bert_mini"}).checkpoint is None


@pytest.mark.parametrize("model_type, kind", [
    ("bert", "bert"), ("roberta", "roberta"), ("xlm-roberta", "roberta"), ("camembert", "roberta"),
    ("electra", "electra"), ("modernbert", "modernbert"),
])  # fmt: skip
def test_the_head_of_a_checkpoint(model_type, kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert kind_of(tmp_path) == kind


@pytest.mark.parametrize("size, kind", [
    ("bert_tiny", "bert"), ("roberta_base", "bert"), ("modernbert_base", "modernbert"),
])  # fmt: skip
def test_the_padding_of_a_size_is_the_tokenizers(size, kind):
    """A roberta_base of random weights gets word pieces, padded with 0."""
    small = dict(num_layers=2, hidden_dim=24, intermediate_dim=16)
    config = override(GlueConfig(), dict(size=size, model_arguments=small))
    model = make_classifier(config, 8, 2)
    assert (model.encoder.pad_id, model.kind, model.encoder.pooler is not None) == (0, kind, kind == "bert")
    ids = np.array([[3, 4, 5, 0, 0]])
    np.testing.assert_allclose(model(ids), model(ids[:, :3]), atol=1e-5)
    model({"token_ids": ids, "segment_ids": ids > 4})  # of pairs


def test_heads_of_the_settings_are_those_of_the_encoder():
    config = override(GlueConfig(), dict(size="bert_tiny", num_heads=4))
    encoder = make_classifier(config, 8, 2).encoder
    encoder.build()
    attention = encoder.blocks[0].attention
    assert (attention.num_heads, attention.key_dim) == (4, 32)  # `bert_tiny` has 2


def test_f1_is_of_two_classes():
    config = override(GlueConfig(), dict(task="mnli", glue="GLUE", score=("f1",)))
    with refused("--score f1", "contradiction, entailment, neutral"):
        targets_of(config)


def test_a_score_that_is_not_defined_is_no_best():
    assert mean_score({"pearson": float("nan"), "spearman": 0.5}, ("pearson", "spearman")) == 25


def test_the_settings_of_the_paper():
    names = RECIPE.config_names()
    assert sum(name in table.CONFIGS for name in names) == 4 * 9 + 4 * 4
    config = RECIPE.named_config("roberta_large_rte")
    assert (config.epochs, config.batch_size, config.learning_rate) == (2, 8, 1e-4)
    assert config.attention_arguments == dict(alpha=0.2, beta=0.4) and config.optimizer_arguments["epsilon"] == 1e-8
    assert RECIPE.named_config("bert_base_mnli_no_convolution").attention_arguments == dict(alpha=0.1, beta=0.0)
    assert RECIPE.named_config("bert_base_cola_5x5").attention_arguments["kernel_size"] == 5


def test_the_optimizer():
    """Linear warm-up over a tenth of the steps, linear decay to 0; biases and norms do not decay."""
    config = override(GlueConfig(), dict(epochs=2, learning_rate=1e-3, size="bert_tiny"))
    optimizer = fine_tuning_optimizer(config, 50)
    schedule = optimizer._learning_rate
    assert [round(1e3 * float(schedule(step)), 4) for step in (0, 5, 10, 55, 100)] == [0, 0.5, 1, 0.5, 0]
    assert (optimizer.epsilon, optimizer.global_clipnorm, optimizer.weight_decay) == (1e-8, 1.0, 0.01)
    layers = [keras.layers.Dense(3), keras.layers.LayerNormalization()]
    x = keras.Input((2,))
    model = keras.Model(x, layers[1](layers[0](x)))
    optimizer.build(model.trainable_variables)
    decays = {variable.name: optimizer._use_weight_decay(variable) for variable in model.trainable_variables}
    assert decays == {"kernel": True, "bias": False, "gamma": False, "beta": False}


@pytest.mark.parametrize("measures", [("mcc",), ("f1", "accuracy"), ("f1_macro",)])
def test_the_score_while_learning(measures):
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 2, 50), rng.normal(size=(50, 2)).astype("float32")
    found = logits.argmax(axis=1)
    expected = {
        "accuracy": metrics.accuracy_score(labels, found),
        "f1": metrics.f1_score(labels, found),
        "f1_macro": metrics.f1_score(labels, found, average="macro"),
        "mcc": metrics.matthews_corrcoef(labels, found),
    }
    metric = ClassScore(2, measures)
    for part in (slice(20), slice(20, 50)):
        metric.update_state(labels[part], logits[part], np.full(len(labels[part]), 2.0))
    np.testing.assert_allclose(metric.result(), mean_score(expected, measures), rtol=1e-5)
    task = targets_of(override(GlueConfig(), dict(task="mrpc")))
    assert task.measure(labels, tf.nn.softmax(logits).numpy())["score"] == pytest.approx(
        mean_score(expected, ("f1", "accuracy"))
    )


def test_the_score_of_numbers_while_learning():
    rng = np.random.default_rng(0)
    labels = rng.uniform(0, 5, 40).astype("float32")
    found = labels[:, None] + rng.normal(size=(40, 1)).astype("float32")
    metric = NumberScore()
    for part in (slice(15), slice(15, 40)):
        metric.update_state(labels[part], found[part], np.full(len(labels[part]), 3.0))
    np.testing.assert_allclose(metric.result(), 100 * stats.pearsonr(labels, found[:, 0]).statistic, rtol=1e-4)
    years = (2000 + labels).astype("float32")
    expected = 100 * stats.pearsonr(years.astype("float64"), found[:, 0]).statistic
    np.testing.assert_allclose(NumberScore()(years, found), expected, rtol=1e-6)
    with refused("--score takes pearson, spearman", "f1"):
        targets_of(override(GlueConfig(), dict(task="stsb", score=("f1",))))


def test_a_submission(tmp_path):
    assert clipped([3.6927, -1, 7]) == ["3.693", "0.000", "5.000"]
    run = Run(tmp_path / "rte", RECIPE)
    (run.folder / "submission").mkdir(parents=True)
    (run.folder / "submission" / "RTE.tsv").write_text(rows_text(["entailment", "not_entailment"] * 1500))
    with refused("--fill", "no CoLA, SST-2"):
        collect([run], [])
    files = collect([run], [name for name in SUBMISSION if name != "RTE"])
    assert {name: content.count(b"\n") - 1 for name, content in files.items()} == {
        "CoLA": 1063,
        "SST-2": 1821,
        "MRPC": 1725,
        "STS-B": 1379,
        "QQP": 390965,
        "MNLI-m": 9796,
        "MNLI-mm": 9847,
        "AX": 1104,
        "QNLI": 5463,
        "RTE": 3000,
        "WNLI": 146,
    }
    write_zip(tmp_path / "submission.zip", files)
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert sorted(archive.namelist()) == sorted(f"{name}.tsv" for name in SUBMISSION)
        assert archive.read("RTE.tsv").startswith(b"index\tprediction\n0\tentailment\n1\tnot_entailment\n")
    with refused("--fill", "RTE"):
        collect([run], list(SUBMISSION))
    with refused("RTE", run.folder):
        collect([run, run], list(SUBMISSION))


@pytest.mark.parametrize(
    "name, cells", [("WNLI", ["0"] * 145), ("WNLI", ["2"] * 146), ("STS-B", ["5.1"] * 1379), ("RTE", ["0"] * 3000)]
)
def test_files_that_the_server_would_refuse(name, cells):
    with refused(f"{name}.tsv"):
        check_file(name, rows_text(cells).encode())


def test_majorities_are_labels():
    assert all(MAJORITY[name] in task.labels or not task.labels for name, (task, _) in SUBMISSION.items())


def test_the_texts_of_t5():
    pair = LabelledText(["Who?"], [""], "pair", ["He."])
    for task, expected in (
        ("qnli", "qnli question: Who? sentence: He."),
        ("mnli", "mnli hypothesis: He. premise: Who?"),
    ):
        texts = LabelTexts(TASKS[task].labels, TASKS[task], TASKS[task].fields)
        assert texts.sources(pair.texts, pair.second_texts) == [expected]
    assert TASKS["stsb"].target("2.47") == "2.4" and TASKS["stsb"].label("9.0") is None
    for task in TASKS.values():
        for label in task.labels:
            assert task.label(task.target(label)) == label


def test_tasks_made_by_code():
    task = number_tasks("acceptability", 40, 8, 8)
    assert [len(part) for part in task.values()] == [80, 8, 8] and 0.3 < np.mean(
        [*map(int, task["train"].labels)]
    ) < 0.7
    truth = swapped_words(40, 8, 8)
    assert [len(part) for part in truth.values()] == [40, 8, 8]
    whole, texts, labels = (task["train"].texts[:40], task["train"].texts[40:], task["train"].labels)
    assert labels[:40] == labels[40:] and texts != whole
    for text, less, label, swapped in zip(whole, texts, labels[:40], truth["train"], strict=True):
        assert len(text.split()) == len(swapped) and any(swapped) == (label == "0")
        # What is left is in its order, and the swapped words are in what is left.
        words, left = iter(text.split()), iter(less.split())
        assert less and all(word in words for word in less.split())
        assert all(word in left for word, is_swapped in zip(text.split(), swapped, strict=True) if is_swapped)
    pairs = number_tasks("paraphrase", 20, 1, 1)["train"]
    assert set(pairs.labels) == {"0", "1"} and all(text.endswith(" euros") for text in pairs.second_texts)
    grades = [float(label) for label in number_tasks("similarity", 40, 1, 1)["train"].labels]
    assert min(grades) >= 0 and max(grades) == 5
    words = "the price is five hundred euros".split()
    for seed in range(20):
        swapped, place = swap_words(words, np.random.default_rng(seed))
        assert swapped != words and sorted(swapped) == sorted(words)
        assert not {swapped[place], swapped[place + 1]} <= COUNTS
    assert (in_words(101), in_digits(101)) == ("one euro and one cent", "1.01 euros")
    sentences = number_sentences(20)
    assert len(sentences) == 20 and sum(" is " in sentence and "." in sentence for sentence in sentences) == 10
    assert json.dumps(sentences) == json.dumps(number_sentences(20))


def test_t5_writes_its_labels(tmp_path, monkeypatch, capsys):
    """From a checkpoint made here to scores and a SavedModel; other texts count as wrong."""
    from keras_headattn.interop import to_hugging_face
    from keras_headattn.models import T5
    from keras_headattn.text import train_sentencepiece

    rows = [f"gj04\t{i % 2}\t\t{('bad', 'good')[i % 2]} sentence {i}." for i in range(40)]
    path = write(tmp_path / "cola.tsv", *rows)
    texts = [f"cola sentence: {row} unacceptable acceptable" for row in rows]
    folder = tmp_path / "t5"
    to_hugging_face(T5(80, 16, 32, num_layers=1, num_heads=2, key_dim=8), folder)
    train_sentencepiece(texts, folder / "spiece.model", 80)
    (folder / "tokenizer_config.json").write_text('{"extra_ids": 0}')
    given = dict(task="cola", train=(str(path),), validation=(str(path),), checkpoint=str(folder), epochs=1)
    given |= dict(run=str(tmp_path / "run"), export=str(tmp_path / "exported"), samples=1, num_buckets=1)
    config = override(GlueConfig(), given | dict(attention="evolving", attention_arguments=dict(alpha=0.1, beta=0.1)))
    with refused("--batch-size", 32):
        text_to_text.make_batches(types.SimpleNamespace(config=config, num_replicas=3), None, None, None)
    with refused("T5 has no head", "'pooling': 'mean'"):
        check(override(config, dict(model_arguments=dict(pooling="mean"))))
    with refused("drops attention weights", "attention_dropout=0.7"):
        check(override(config, dict(model_arguments=dict(attention_dropout=0.7))))
    with refused("for encoders", "T5"):
        check(override(config, dict(optimizer="electra")))
    read, new = (text_to_text.make_model(override(config, dict(checkpoint_weights=given))) for given in (True, False))
    assert [w.shape for w in read.weights] == [w.shape for w in new.weights]
    kernels = [[w.numpy() for w in model.weights if "kernel" in w.path] for model in (read, new)]
    assert not any(np.any(a == b) for a, b in zip(*kernels, strict=True))
    _, history = train_here(RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["val_loss"]) and "val_score" in history[0]
    scores = json.loads((tmp_path / "run" / "results" / "dev" / "scores.json").read_text())
    assert {"score", "mcc", "accuracy", "other_text"} <= set(scores)
    serve = tf.saved_model.load(str(tmp_path / "exported" / "1")).signatures["serving_default"]
    found = serve(text=tf.constant(["good sentence 3.", "bad", "bad " * 200]))
    assert found["classes"].shape == found["scores"].shape == (3, 1)
    assert found["is_cut"].numpy().tolist() == [False, False, True]
    assert {len(value) for value in serve(text=tf.constant([], tf.string)).values()} == {0}
    capsys.readouterr()
    RECIPE.main(["evaluate", str(tmp_path / "run"), "--test", str(path)])
    assert "\ncola: score" in f"\n{capsys.readouterr().out}"
    targets = WrittenClasses(["0", "1"], ["mcc"], TASKS["cola"], ["sentence"])
    assert targets.texts.sources(["a"]) == ["cola sentence: a"]
    predicted = targets.rows(["acceptable", "unacceptable", "nonsense", "acceptable"])
    measures = targets.measure(np.array([1, 0, 0, 0]), predicted)
    assert measures["accuracy"] == 0.5 and measures["other_text"] == 0.25
    assert WrittenNumbers((), ["pearson"]).rows(["3.8", "so"]).tolist() == [[pytest.approx(3.8)], [-1.0]]


@pytest.mark.parametrize("name", ["Bert", "Electra", "Roberta"])
def test_a_preset_of_keras_hub_as_checkpoint(name, tmp_path):
    keras_hub = pytest.importorskip("keras_hub")
    sizes = dict(num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=12, max_sequence_length=20)
    if name == "Roberta":
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "Ġ", "ab", "<mask>"]
        arguments = {token: number for number, token in enumerate(vocabulary)}, ["a b"]
    else:
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b"]
        arguments = (vocabulary,)
    own = dict(embedding_dim=6, vocab_size=8) if name == "Electra" else dict(vocabulary_size=len(vocabulary))
    backbone = getattr(keras_hub.models, f"{name}Backbone")(**sizes, **own)
    for part in (backbone, getattr(keras_hub.tokenizers, f"{name}Tokenizer")(*arguments)):
        part.save_to_preset(str(tmp_path))
    given = dict(task="cola", checkpoint=str(tmp_path), max_length=20, run=str(tmp_path / "run"))
    config = override(GlueConfig(), given)
    check(config)
    tokenizer = make_tokenizer(Run(config.run, RECIPE), config, None)
    model = make_model(config, tokenizer, targets_of(config))
    assert model.kind == name.lower() and model.encoder.vocabulary_size == tokenizer.vocabulary_size
    np.testing.assert_array_equal(model.encoder.token_embedding.embeddings, backbone.token_embedding.embeddings)
    assert model(tokenizer(["a b"])).shape == (1, 2)


def test_training_on_pairs_of_ones_own(tmp_path, monkeypatch):
    """Two replicas, accumulated gradients and bfloat16, with a head in place of the pooler."""
    rng = np.random.default_rng(0)
    rows = ["first\tsecond\tgrade"]
    for grade in rng.uniform(0, 5, 48):
        rows.append(f"{'good ' * int(1 + grade)}film\ta film\t{grade:.2f}")
    path = write(tmp_path / "pairs.tsv", *rows)
    given = dict(text_column="first", second_column="second", label_column="grade", predict="number")
    given |= dict(
        train=(str(path),), run=str(tmp_path / "run"), export=None, size="bert_tiny", model_arguments=dict(head_dim=20)
    )
    given |= dict(
        epochs=2,
        batch_size=8,
        replicas=2,
        optimizer_arguments=dict(gradient_accumulation_steps=2),
        precision="mixed_bfloat16",
        num_buckets=1,
    )
    _, history = train_here(RECIPE, override(GlueConfig(), given | dict(learning_rate=1e-3)), monkeypatch)
    assert np.isfinite([logs["val_score"] for logs in history]).all()
    scores = json.loads((tmp_path / "run" / "results" / "test" / "scores.json").read_text())
    assert {"score", "pearson", "spearman", "mae"} <= set(scores)


def test_predictions_of_test_sets(tmp_path, capsys):
    """Rows in their order, and numbers from 0 to 5."""

    config = override(GlueConfig(), dict(task="stsb", quiet=True))

    def known(texts, second_texts, progress):
        return np.array([[len(text)] for text in texts], "float32")

    corpora = {"STS-B": LabelledText(["a", "abcdefg"], ["", ""], "x", ["b", "b"])}
    predict_tests(Run(tmp_path, RECIPE), config, known, corpora)
    lines = (tmp_path / "submission" / "STS-B.tsv").read_text().splitlines()
    assert lines == ["index\tprediction", "0\t1.000", "1\t5.000"]
