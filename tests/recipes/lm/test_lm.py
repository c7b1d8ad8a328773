"""The recipe of language models from end to end, as a user runs it; training in a process of its own."""

import functools
import json
import math
import re

import keras
import numpy as np
import pytest

from keras_headattn.data import TokenFile, write_tokens
from keras_headattn.interop import to_hugging_face, tokenizer_of
from keras_headattn.layers import ATTENTIONS
from keras_headattn.models import CausalLM
from keras_headattn.text import ByteTokenizer, CharacterTokenizer, train_byte_pairs
from recipes.engine.run import Run
from recipes.lm.__main__ import RECIPE, main
from recipes.lm.data import read_tokenizer
from recipes.lm.scoring import token_losses
from recipes.lm.settings import CAUSAL
from recipes.lm.train import prompts_of
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return quick_run("lm", tmp_path_factory, "--attention", "talking_heads", "--batch-size", 16, "--epoch-steps", 60)


def test_a_run_leaves_scores_and_a_model_that_writes(quick, recipe, tmp_path):
    folder, process = quick
    assert process.stderr == ""
    history = json.loads((folder / "run" / "history.json").read_text())
    assert len(history) == 2 and history[1]["val_loss"] < history[0]["val_loss"] < math.log(49)
    scores = json.loads((folder / "run" / "results" / "test" / "scores.json").read_text())
    values = {name: score["value"] for name, score in scores.items()}
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))
    assert values["bits_per_byte"] < values["loss"] / math.log(2)  # some characters have two bytes
    command = "generate", folder / "run", "--prompt", "one, two", "--max-tokens", 20, "--seed", 3
    texts = [recipe(*command, "--samples", 2) for _ in range(2)]
    assert texts[0] == texts[1] and texts[0].count("one, two") == 2
    assert recipe(*command, "--prompt", "§").startswith("error: --prompt: Texts must have characters of the vocabulary")
    assert recipe(*command, "--prompt", "").startswith("error: --prompt must have a token")
    (tmp_path / "blimp.txt").write_text("eins, zwei, drei\n" * 9)  # named as the task is
    (tmp_path / "blimp.jsonl").write_text('{"sentence_good": "one, two", "sentence_bad": "two, one"}\n')
    printed = recipe("evaluate", folder / "run", "--test", tmp_path / "blimp.txt", "--tasks", tmp_path / "blimp.jsonl")
    assert printed.startswith("blimp: loss ") and "\nblimp-2: accuracy " in printed
    (right,) = json.loads((folder / "run" / "results" / "blimp-2" / "right.json").read_text())
    assert f"\nblimp-2: accuracy {right:.4f}" in printed


def test_the_saved_model_writes_without_the_library(quick, recipe, tmp_path):
    folder, process = quick
    assert process.stdout.count("    -> ") == 5
    assert (folder / "exported" / "1" / "saved_model.pb").exists()
    printed = recipe("export", folder / "run", "--export", tmp_path / "again")
    assert printed.count("    -> ") == 5
    files = [path / "1" / "assets.extra" / "examples.json" for path in (folder / "exported", tmp_path / "again")]
    first, again = (json.loads(file.read_text()) for file in files)
    assert first == again and len(first) == 5


@pytest.mark.parametrize(
    "text, expected",
    [("ab c  d\na b c d a b", ["ab c  d\n", "a b c "]), ("abcd" * 9, ["abcd" * 4, "abcd" * 4]), ("ab c", ["ab c"])],
)
def test_prompts_have_characters_of_the_text_alone(text, expected, tmp_path):
    tokenizer = CharacterTokenizer(sorted({*text}))
    write_tokens(tmp_path / "text.bin", [text], tokenizer)
    assert prompts_of(TokenFile(tmp_path / "text.bin", tokenizer), tokenizer, 2) == expected


def test_a_synthetic_task(tmp_path_factory):
    folder, process = quick_run(
        "lm", tmp_path_factory, "--synthetic", "recall", "--batch-size", 16, "--epoch-steps", 20
    )
    assert process.stderr == "" and process.stdout.count("    -> ") == 5


@pytest.mark.parametrize("attention", ["evolving", "multi_token"])
def test_heads_that_keep_logits_write(attention, tmp_path_factory, recipe):
    options = "--attention", attention, "--batch-size", 16, "--epoch-steps", 20
    folder, process = quick_run("lm", tmp_path_factory, *options)
    assert process.stderr == "" and process.stdout.count("    -> ") == 5
    command = "generate", folder / "run", "--prompt", "one, ", "--max-tokens", 9
    assert recipe(*command).startswith("one, ")


def test_training_must_update(recipe, tmp_path):
    options = "--quick", "--epoch-steps", 20, "--optimizer-arguments", "gradient_accumulation_steps=99"
    printed = recipe(*options, "--run", tmp_path / "run", "--export", "none")
    assert "at most the steps of training. Received: 99 for 2 epochs of 20 steps" in printed


def test_training_on_files(recipe, tmp_path):
    """In byte pairs, with the loss in chunks, and no test set."""
    text = "\n".join(f"{i} and {i + 1} are {2 * i + 1}" for i in range(999))
    (tmp_path / "train.txt").write_text(text)
    command = [
        "--quick", "--train", tmp_path / "train.txt", "--tokenizer", "byte_pairs", "--vocabulary-size", 300,
        "--epochs", 1, "--epoch-steps", 20, "--model-arguments", "num_layers=1", "loss_chunk_size=64",
        "positions=rotary", "--validation", 0.2, "--run", tmp_path / "run", "--export", "none",
    ]  # fmt: skip
    printed = recipe(*command)
    assert "300 different tokens" in printed and "\nvalidation: loss " in printed and "no test set" not in printed
    (tmp_path / "run" / "train.bin").unlink()
    assert "nothing is left to do" in recipe(*command)
    assert "epochs: the folder has 1, you gave 2" in recipe(*command, "--epochs", 2)
    (tmp_path / "train.txt").write_text(text + "0")
    assert f"training data of --train {tmp_path}/train.txt: " in (message := recipe(*command))
    assert re.search(r"[0-9,]+ characters in place of [0-9,]+, in ", message)


def write_checkpoint(folder, text):
    """A small GPT-2 with its tokenizer, as Hugging Face writes them."""
    tokenizer = train_byte_pairs([text], 300)
    model = CausalLM(
        300, 2, 16, num_heads=2, norm=keras.layers.LayerNormalization(epsilon=1e-5), positions="learned",
        max_length=32, seed=0,
    )  # fmt: skip
    model.build()
    to_hugging_face(model, folder, model_type="gpt2")
    vocabulary = {token: number for number, token in enumerate(tokenizer.vocabulary)}
    document = {
        "added_tokens": [dict(id=tokenizer.eos_id, content="<|endoftext|>", special=True, normalized=False)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": list(tokenizer.merges)},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
    return model


def test_a_checkpoint_with_other_heads(recipe, tmp_path):
    """Its loss is that of the checkpoint where the heads start alike, and training lowers it."""
    text = "\n".join(f"{i} and {i + 1} are {2 * i + 1}" for i in range(400))
    (tmp_path / "train.txt").write_text(text)
    model = write_checkpoint(tmp_path / "gpt2", text)
    given = [
        "--train", tmp_path / "train.txt", "--checkpoint", tmp_path / "gpt2", "--attention", "talking_heads",
        "--attention-arguments", "mixing_initializer=identity", "--length", 32, "--batch-size", 4, "--epochs", 1,
        "--export", "none", "--run", tmp_path / "run",
    ]  # fmt: skip
    printed = recipe(*given, "--epoch-steps", 1, "--learning-rate", 1e-9)
    run, tokenizer = Run(tmp_path / "run", RECIPE), tokenizer_of(tmp_path / "gpt2")
    assert read_tokenizer(tmp_path / "gpt2" / "tokenizer.json").fingerprint == tokenizer.fingerprint
    expected = token_losses(model, tokenizer.encode([text[round(len(text) * 0.9) :]])[0], 32, 16, 4).mean()
    assert run.scores()["validation"]["loss"] == pytest.approx(expected, rel=1e-4), printed
    recipe(*given, "--epoch-steps", 60, "--learning-rate", 1e-2, "--run", tmp_path / "more")
    assert Run(tmp_path / "more", RECIPE).scores()["validation"]["loss"] < expected - 1
    with pytest.warns(UserWarning, match="Quality is lost") as warned:
        recipe(*given, "--attention", "real_former", "--attention-arguments", "--dry-run", "--run", tmp_path / "dry")
    assert sum("Quality is lost" in str(warning.message) for warning in warned) == 1
    refused = recipe(*given, "--size", "nano")
    assert refused == "error: --size is that of --checkpoint. Received: size='nano'"
    assert "at most the 32 positions" in recipe(*given, "--length", 64, "--run", tmp_path / "other")


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_losses_of_windows(stride):
    """Against one pass for each token, over the window that scores it."""
    model = CausalLM(257, num_layers=1, hidden_dim=8, num_heads=2, seed=0)
    ids = ByteTokenizer()(["some text to score"]).numpy()[0]
    found = token_losses(model, ids, length=8, stride=stride, batch_size=4)
    for i in range(1, len(ids)):
        start = max(0, math.ceil((i - 8) / stride) * stride)
        logits = np.asarray(model(ids[None, start:i]))[0, -1].astype("float64")
        assert found[i - 1] == pytest.approx(np.log(np.exp(logits).sum()) - logits[ids[i]], rel=1e-5)


def test_attention_that_is_offered():
    """It is what the model takes."""
    for name in ATTENTIONS:
        message = ""
        try:
            CausalLM(9, 1, 8, num_heads=2, attention=name)
        except ValueError as error:  # of other arguments that some need
            message = str(error)
        assert ("must be causal" in message) == (name not in CAUSAL)


@pytest.mark.parametrize("given, message", [
    (("--stride", 65), "--stride must be from 1 to --length. Received: stride=65 with length=64"),
    (("--length", 512), "a smaller --length or --batch-size. Received: 369 tokens for 8 rows of 512"),
    (("--size", "nano_cpu", "--num-heads", 3), "--num-heads must divide the width of the model"),
])  # fmt: skip
def test_mistakes_are_reported_in_one_line(recipe, tmp_path, given, message):
    (tmp_path / "train.txt").write_text("a b c d e\n" * 41)
    found = recipe("--quick", "--train", tmp_path / "train.txt", "--run", tmp_path / "run", *given)
    assert message in found and found.startswith("error: ") and "\n" not in found
