"""A folder as OPUS-MT has it: its model, its vocabularies, and the recipe that goes on with it."""

import json
import os

import numpy as np
import pytest
import sentencepiece
from safetensors.numpy import save_file

from keras_headattn.interop import from_pretrained, to_hugging_face, tokenizer_of
from keras_headattn.serving import Translator
from recipes.translate.__main__ import main
from tests.interop.folders import numbers
from tests.layers.harness import array
from tests.refusals import refused

ENGLISH = ["the cat sat on the mat", "a dog ran to the house", "two cats and a dog", "the house is on the hill"]
GERMAN = ["die Katze sass auf der Matte", "ein Hund rannte zum Haus", "zwei Katzen und ein Hund", "das Haus am Berg"]
WIDTH, INNER = 8, 12


def marian_state(size):
    shapes = {"model.shared.weight": (size, WIDTH), "final_logits_bias": (1, size)}
    for side in ("encoder", "decoder"):
        block = f"model.{side}.layers.0"
        for part in ["self_attn"] + ["encoder_attn"] * (side == "decoder"):
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes |= {f"{block}.{part}.{name}.weight": (WIDTH, WIDTH), f"{block}.{part}.{name}.bias": (WIDTH,)}
            shapes |= {f"{block}.{part}_layer_norm.{name}": (WIDTH,) for name in ("weight", "bias")}
        shapes |= {f"{block}.fc1.weight": (INNER, WIDTH), f"{block}.fc1.bias": (INNER,)}
        shapes |= {f"{block}.fc2.weight": (WIDTH, INNER), f"{block}.fc2.bias": (WIDTH,)}
        shapes |= {f"{block}.final_layer_norm.{name}": (WIDTH,) for name in ("weight", "bias")}
    return numbers(shapes)


def train_vocabularies(folder, kind):
    """`source.spm`, `target.spm` and their pieces together, in an order of its own, as vocab.json."""
    pieces = set()
    for side, text in (("source", ENGLISH), ("target", GERMAN)):
        (folder / "text").write_text("\n".join(text * 5))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / side), vocab_size=34, model_type=kind, minloglevel=2,
            hard_vocab_limit=False,
        )  # fmt: skip
        os.rename(folder / f"{side}.model", folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces |= {model.id_to_piece(number) for number in range(model.vocab_size())}
    tokens = ["</s>", "<unk>", *sorted(pieces - {"<s>", "</s>", "<unk>"}), ">>fra<<", "<pad>"]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    return ids


def make_folder(folder, kind="unigram"):
    folder.mkdir(exist_ok=True)
    size = len(train_vocabularies(folder, kind))
    config = dict(
        model_type="marian", vocab_size=size, decoder_vocab_size=size, d_model=WIDTH, encoder_layers=1,
        decoder_layers=1, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, encoder_attention_heads=2,
        decoder_attention_heads=2, activation_function="swish", dropout=0.1, attention_dropout=0.0,
        activation_dropout=0.0, scale_embedding=True, static_position_embeddings=True, normalize_before=False,
        normalize_embedding=False, add_final_layer_norm=False, add_bias_logits=False, max_position_embeddings=512,
        pad_token_id=size - 1, eos_token_id=0, decoder_start_token_id=size - 1, num_beams=6, bad_words_ids=[[size - 1]],
        share_encoder_decoder_embeddings=True,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    save_file(marian_state(size), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("opus"))


@pytest.fixture(scope="module")
def pair(folder):
    return tokenizer_of(folder)


def their_ids(folder, side, text):
    """As Marian looks pieces up, with padding and id 0 in each other's places."""
    ids = json.loads((folder / "vocab.json").read_text())
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
    found = [ids.get(piece, ids["<unk>"]) for piece in model.encode(text, out_type=str)] + [ids["</s>"]]
    places = {0: len(ids) - 1, len(ids) - 1: 0}
    return [places.get(number, number) for number in found]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_token_ids(kind, tmp_path):
    folder = make_folder(tmp_path, kind)
    pair = tokenizer_of(folder)
    for side, texts in (("source", [*ENGLISH, "a xyz cat"]), ("target", [*GERMAN, "ein xyz Haus"])):
        for text, found in zip(texts, getattr(pair, side).encode(texts), strict=True):
            assert found.tolist() == their_ids(folder, side, text)
    assert pair.decode(pair.target(GERMAN)) == GERMAN


def test_special_tokens(folder, pair):
    size = len(json.loads((folder / "vocab.json").read_text()))
    assert (pair.target.pad_id, pair.target.bos_id, pair.target.eos_id, pair.target.unk_id) == (0, 0, size - 1, 1)
    # The language to translate to is one token, and the text begins a word after it.
    found = pair.source.encode([">>fra<< the cat"])[0].tolist()
    assert found == [size - 2, *pair.source.encode(["the cat"])[0].tolist()]


def test_translator(folder, pair):
    model = from_pretrained(folder)
    translate = Translator(model, pair.source, pair.target, beam_size=2, max_length=8, jit_compile=False)
    assert all(np.isfinite(translation.score) for translation in translate(ENGLISH[:2]))
    assert array(model.tied_bias)[0] == marian_state(model.source_vocabulary_size)["final_logits_bias"][0, -1]


def test_out_and_in(folder, tmp_path):
    model = from_pretrained(folder)
    to_hugging_face(model, tmp_path)
    for weight, same in zip(model.weights, from_pretrained(tmp_path).weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(same))


@pytest.mark.parametrize("change, name, received", [
    ({"scale_embedding": False}, "scale_embedding", "False in "),
    ({"normalize_before": True}, "normalize_before", "True in "),
    ({"decoder_ffn_dim": 13}, "sizes", "encoder_ffn_dim=12, decoder_ffn_dim=13"),
])  # fmt: skip
def test_refused(change, name, received, folder, tmp_path):
    config = json.loads((folder / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(marian_state(config["vocab_size"]), tmp_path / "model.safetensors")
    with refused(name, received):
        from_pretrained(tmp_path)


def test_a_vocabulary_of_another_size(tmp_path):
    folder = make_folder(tmp_path)
    ids = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**ids, "more": len(ids)}))
    with refused("vocabulary", f"{len(ids) + 1} tokens of the source for {len(ids)} rows"):
        tokenizer_of(folder)
    (folder / "source.spm").unlink()
    (folder / "vocab.json").write_text(json.dumps(ids))
    with refused("source.spm", folder, FileNotFoundError):
        tokenizer_of(folder)


def test_the_recipe(folder, tmp_path, capsys):
    """A run without training, and one that goes on with other attention."""
    run = str(tmp_path / "run")
    main(["import", str(folder), "--run", run, "--max-length", "8"])
    (tmp_path / "text").write_text("the cat sat\n")
    capsys.readouterr()
    main(["translate", run, str(tmp_path / "text"), "--beam-size", "1"])
    translated = capsys.readouterr().out.splitlines()
    assert len(translated) == 1
    main(["convert", run, str(tmp_path / "out"), "--to", "hugging_face"])
    assert "Model for hugging_face: " in capsys.readouterr().out
    first, second = (json.loads((place / "config.json").read_text()) for place in (folder, tmp_path / "out"))
    assert (second["eos_token_id"], second["pad_token_id"]) == (first["pad_token_id"], 0)
    for weight, same in zip(from_pretrained(folder).weights, from_pretrained(tmp_path / "out").weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(same))
    again = tokenizer_of(tmp_path / "out")
    np.testing.assert_array_equal(again.target(GERMAN), tokenizer_of(folder).target(GERMAN))
    assert again.decode(again.target(GERMAN)) == GERMAN
    with refused("--quantization", "int8 for hugging_face", SystemExit):
        main(["convert", run, str(tmp_path / "more"), "--to", "hugging_face", "--quantization", "int8"])

    files = {"en": ENGLISH * 4, "de": GERMAN * 4}
    for language, lines in files.items():
        (tmp_path / f"train.{language}").write_text("\n".join(lines))
    texts = [str(tmp_path / f"train.{language}") for language in files]
    tuned = str(tmp_path / "tuned")
    main([
        "--pretrained", str(folder), "--attention", "evolving", "--train", *texts, "--validation", *texts,
        "--test", *texts, "--run", tuned, "--epochs", "1", "--max-length", "40", "--beam-size", "1",
        "--model-arguments", "dropout=0.0", "--lora-rank", "2",
        "--validation-sentences", "0", "--tensorboard", "--export", "none",
    ])  # fmt: skip
    told = capsys.readouterr().out
    assert "44 tensors copied." in told and "LoRA of rank 2: " in told
    assert (tmp_path / "tuned" / "results").is_dir()
    with refused("no equivalent", "EvolvingAttention in", SystemExit):
        main(["convert", tuned, str(tmp_path / "more"), "--to", "hugging_face"])
    assert not (tmp_path / "more").exists()
