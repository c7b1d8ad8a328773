"""Mistakes in commands are reported before data are read or a model is trained."""

import json
import os
import subprocess
import sys

import pytest

from recipes.classify.__main__ import RECIPE
from recipes.translate.evaluation import named_metrics
from recipes.translate.settings import METRICS
from tests.recipes.commands import ROOT, all_configs

# Commands, and what the error says. {tmp} is a folder with the files below.
MISTAKES = [
    ("classify evaluate {tmp}/nosuch", "There is no run in"),
    ("classify --train {tmp}/a.csv --run /proc/x", "--run must be a folder that can be written to"),
    ("imagenet --train {tmp}", "(data are named by --images, --records, --tfds or --built-in)"),
    (
        "translate --attention evolving --attention-arguments alhpa=1 --cross-attention multi_head",
        "--attention-arguments: EvolvingAttention has no such argument. Received: alhpa",
    ),
    ("classify evaluate {tmp}/glue_run", "is of recipes.glue"),
    ("classify evaluate {tmp}/other_version", "config.json is of another version of recipes.classify"),
    ("classify evaluate {tmp}/edited", "config.json: Setting `epochs` must be int. Received: epochs='x'"),
    ("classify evaluate {tmp}/begun", "has no finished model"),
    ("classify prune {tmp}/begun {tmp}/new", "has no finished model"),
    ("classify prune {tmp}/begun {tmp}/empty", "The folder of the new run must not exist yet. Received: "),
    ("classify prune {tmp}/begun {tmp}/new --keep 0", "--keep must be above 0 and at most 1. Received: 0.0"),
    ("classify prune {tmp}/begun {tmp}/new --keep nan", "--keep must be above 0 and at most 1. Received: nan"),
    ("classify prune {tmp}/begun {tmp}/new --by size", "invalid choice: 'size'"),
    (
        "classify trian",
        "The commands are train, evaluate, export, prune, classify, explain. Received: trian (did you mean train",
    ),
    ("classify --train {tmp}/a.csv --text-column review", "must name the column 'review'. Give --text-column"),
    ("classify --train {tmp}/a.csv --run {tmp}/begun --seed 3", "holds a run with other settings. "),
    ("classify --encoder transformer --num-heads 7", "Received: num_heads=7 for a width of 32"),
    (
        "classify --encoder transformer --attention evolving --attention-arguments alhpa=0.1",
        "EvolvingAttention has no such argument. Received: alhpa (did you mean alpha?)",
    ),
    (
        "translate --attention evolving --attention-arguments xxx=1",
        "EvolvingAttention takes num_heads, key_dim, value_dim, alpha",
    ),
    ("translate --attention re_attention", "whose statistics in training run over later tokens"),
    (
        "classify --repulsive svgd --repulsive-arguments stepsize=0.1",
        "--repulsive-arguments: Repulsive has no such argument. Received: stepsize (did you mean step_size?)",
    ),
    ("glue --repulsive svgd --repulsive-arguments smoothing=1", "`smoothing` must be bool. Received: smoothing=1"),
    ("lm --attention-arguments use_gate=heads", "`use_gate` must be True, False or 'head'. Received: use_gate='heads'"),
    ("lm --attention-arguments qk_norm=yes", "`qk_norm` must be bool. Received: qk_norm='yes'"),
    ("lm --callback-arguments gradient_norm=no", "`gradient_norm` must be bool. Received: gradient_norm='no'"),
    ("glue --repulsive-arguments step_size=1", "--repulsive-arguments is for --repulsive. Received: "),
    (
        "glue --optimizer electra --optimizer-arguments clipnrom=1.0",
        "AdamWeightDecay and Optimizer have no such argument. Received: clipnrom (did you mean clipnorm?)",
    ),
    ("imagenet --optimizer-arguments momentum=fast", "`momentum` must be float. Received: momentum='fast'"),
    (
        "classify --model-arguments droput=0.1",
        "SentencePairClassifier and BiLSTMEncoder and TransformerEncoder have no such argument. Received: droput (did",
    ),
    (
        "classify --attention-regularizer cosine --attention-regularizer-arguments weight=-1",
        "Received: weight=-1",
    ),
    ("imagenet --augmentation pad_crop --augmentation-arguments min_area=0.1", "pad_and_crop takes padding"),
    ("glue --optimizer-arguments gradient_accumulation_steps=1", "must be an integer >= 2. Received: "),
    ("rationales --model-arguments dropout=1.5", "`dropout` must be a number in [0, 1). Received: dropout=1.5"),
    ("graphs --compile-arguments steps_per_execution=0", "`steps_per_execution` must be at least 1"),
    ("graphs --model-arguments hidden_dim=wide", "`hidden_dim` must be int. Received: hidden_dim='wide'"),
    ("pretrain --model-arguments max_length=long", "`max_length` must be int. Received: max_length='long'"),
    ("translate --splits tset=a", "has no such argument. Received: tset (did you mean test?)"),
    ("pretrain --model-arguments drawn=1", "ElectraPretraining and Bert "),
    ("translate --num-heads 7", "--num-heads must divide"),
    ("translate --metrics blue", "invalid choice: 'blue'"),
    ("translate --train {tmp}/a.en {tmp}/a.de --validation {tmp}/a.en {tmp}/a.de", "Received: 2 source and 1 target"),
    ("glue --task cola --glue {tmp}/empty --size bert_tiny", "CoLA needs a file train.tsv"),
    (
        "glue --task cola --glue {tmp}/empty --checkpoint bert-base-uncased",
        "hf download google-bert/bert-base-uncased",
    ),
    (
        "answer --train {tmp}/squad.json --size bert_tiny",
        "squad.json, question q7: an answer must stand in the context",
    ),
    ("answer --train {tmp}/a.csv --size bert_tiny", "a.csv is not JSON"),
    ("answer --built-in --max-length 12", "--max-length must leave room for a context beside a question and four"),
    ("tag --train {tmp}/a.conll --checkpoint {tmp}/empty", "--checkpoint must be the folder of a model"),
    ("answer --built-in --validation 0.2", "--validation needs --train"),
    ("tag --train {tmp}/a.conll --validation 1.5", "or a share between 0 and 1. Received: 1.5"),
    ("answer predict {tmp}/begun {tmp}/squad.json", "--output is for questions of a .json. Received: "),
    (
        "tag --train {tmp}/a.conll --size bert_tiny",
        "a.conll, line 2 must have a word in column 1 and a tag in column last",
    ),
    (
        "tag --train {tmp}/nosuch --size bert_tiny",
        "There is no such file. Received: --train ",
    ),
    ("lm --train {tmp}/nosuch", "There is no such file. Received: --train "),
    ("lm --train {tmp}/a.csv --test {tmp}/nosuch", "Received: --test "),
    ("lm --checkpoint gpt2", "`--checkpoint` must be a checkpoint on this machine"),
    ("lm --attention re_attention", "argument --attention: invalid choice: 're_attention'"),
    (
        "lm --attention talking_heads --attention-arguments mixing=identity",
        "no such argument. Received: mixing (did you mean mixing_initializer?)",
    ),
    ("tag --built-in --tag-column 2", "--tag-column is only for files. Received: "),
    ("tag --train {tmp}/a.conll --tag-column 1", "--word-column and --tag-column must differ. Received: 1 and 1"),
    ("tag --train {tmp}/a.conll --checkpoint nosuch", "`--checkpoint` must be a checkpoint on this machine"),
    ("rationales --built-in --checkpoint nosuch", "`--checkpoint` must be a checkpoint on this machine"),
    ("graphs --num-heads 7", "--num-heads must divide"),
    ("tag --built-in --size bert_tiny --num-heads 5", "Received: num_heads=5 for a width of 128"),
    ("rationales --built-in --size bert_tiny --num-heads 5", "Received: num_heads=5 for a width of 128"),
    ("answer --built-in --checkpoint {tmp}/bert --num-heads 5", "Received: num_heads=5 for a width of 96"),
    ("graphs --train {tmp}/a.csv --validation {tmp}/a.csv", "Graphs are read from"),
    ("pretrain --num-heads 7", "--num-heads must divide"),
    ("imagenet --images {tmp}/empty", "Give --train-split. Received: folders none"),
    ("classify --run gs://bucket/run", "--run must be a path of this machine. Mount the bucket"),
    ("translate --export s3://bucket/{run}", "Received: s3://bucket/{run}"),
    ("translate --train gs://b/a.en gs://b/a.de", "--train must be a path of this machine"),
    ("graphs --test {tmp}/a.csv https://host/a.json", "Received: https://host/a.json"),
    ("classify prune {tmp}/begun gs://bucket/new", "OUTPUT must be a path of this machine"),
    ("classify --loggers tensorboard", "invalid choice: 'tensorboard'"),
    ("sweep --attention x", "unrecognized arguments: --attention x (did you mean --attentions?)"),
]
PROGRAM = """
import contextlib, io, json, sys
from tests.recipes.commands import command as module_of
for command in json.load(sys.stdin):
    name, *arguments = command.split()
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            module_of(name).main(arguments)
    except SystemExit as end:
        print(json.dumps(f"{end.code} {told.getvalue()}"))
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("early")
    wrong = {"id": "q7", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 1}]}
    squad = {"data": [{"paragraphs": [{"context": "Ann ran.", "qas": [wrong]}]}]}
    (folder / "squad.json").write_text(json.dumps(squad))
    for name, text in {
        "a.csv": "text,label\na,b\nc,d\n",
        "a.en": "a\nb\n",
        "a.conll": "a O\nb\n",
        "a.de": "a\n",
    }.items():
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    (folder / "bert").mkdir()
    (folder / "bert" / "config.json").write_text('{"hidden_size": 96, "num_attention_heads": 4}')
    runs = {"glue_run": {"recipe": "glue"}, "other_version": {"recipe": "classify", "frobnicate": 3}}
    runs |= {"edited": {"recipe": "classify", "epochs": "x"}, "begun": {"recipe": "classify", "train": ["a.csv"]}}
    for name, settings in runs.items():
        (folder / name / "results").mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(settings))
    commands = [command.replace("{tmp}", str(folder)) for command, _ in MISTAKES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[command for command, _ in MISTAKES])
def test_reported_early(number, reported):
    assert MISTAKES[number][1] in reported[number]


@pytest.mark.parametrize("config", all_configs().values(), ids=list(all_configs()))
def test_the_attention_of_named_settings_is_accepted(config):
    from recipes.engine.modelling import check_attentions

    check_attentions(config)


def test_metrics_are_those_that_settings_name():
    names = [name for name in METRICS if name not in ("yisi", "redundancy")]
    assert len(named_metrics(names, "de")) == len(names)


def test_options_are_not_cut_short(capsys):
    with pytest.raises(SystemExit):
        RECIPE.main(["--epoch", "3"])
    assert "unrecognized arguments: --epoch 3 (did you mean --epochs?)" in capsys.readouterr().err
