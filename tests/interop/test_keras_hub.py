"""KerasHub's backbones in and out, with their outputs."""

import json

import numpy as np
import pytest

from keras_headattn.interop import from_keras_hub, from_pretrained, to_keras_hub, tokenizer_of
from keras_headattn.models import Bert
from keras_headattn.text import train_sentencepiece
from tests.layers.harness import array, randomize
from tests.refusals import refusals, refused

keras_hub = pytest.importorskip("keras_hub")
SIZES = dict(num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=12)
IDS = np.array([[5, 6, 7, 8], [9, 10, 11, 12]], "int32")
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "int32")


def backbone(name):
    own = dict(vocab_size=20, embedding_dim=6) if name == "Electra" else dict(vocabulary_size=20)
    made = getattr(keras_hub.models, f"{name}Backbone")(**SIZES, **own, max_sequence_length=10)
    return randomize(made, 1)


@pytest.mark.parametrize("name", ["Bert", "Roberta", "Electra"])
def test_encoders(name):
    theirs = backbone(name)
    ids = np.where(MASK, IDS, 1 if name == "Roberta" else 0)
    segments = {} if name == "Roberta" else {"segment_ids": np.array([[0, 0, 1, 1], [0, 0, 0, 0]], "int32")}
    expected = theirs({"token_ids": ids, "padding_mask": MASK, **segments})
    expected = expected if name == "Roberta" else expected["sequence_output"]
    ours = from_keras_hub(theirs)
    found = ours({"token_ids": ids, **segments})["sequence_output"]
    np.testing.assert_allclose(array(found)[MASK > 0], array(expected)[MASK > 0], atol=1e-5)
    for weight, same in zip(theirs.weights, to_keras_hub(ours).weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(same))
    assert from_keras_hub(theirs, attention="evolving").blocks[1].attention.map_kernel is not None


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.filterwarnings("ignore:Layer '")  # of KerasHub's own layers
def test_t5(gated):
    theirs = keras_hub.models.T5Backbone(
        **SIZES, vocabulary_size=20, key_value_dim=3, use_gated_activation=gated, tie_embedding_weights=not gated
    )
    randomize(theirs, 1)
    outputs = theirs({
        "encoder_token_ids": IDS * MASK, "encoder_padding_mask": MASK,
        "decoder_token_ids": IDS, "decoder_padding_mask": np.ones_like(IDS),
    })  # fmt: skip
    found = from_keras_hub(theirs).encode(IDS * MASK)
    expected = array(outputs["encoder_sequence_output"])
    np.testing.assert_allclose(array(found)[MASK > 0], expected[MASK > 0], atol=1e-5)


def test_a_preset(tmp_path):
    theirs = backbone("Bert")
    theirs.save_to_preset(str(tmp_path / "preset"))
    ours = from_pretrained(tmp_path / "preset", attention="real_former")
    np.testing.assert_array_equal(array(ours.token_embedding.embeddings), array(theirs.token_embedding.embeddings))


TEXTS = ["a b ab abc", "A bAb", "äb"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "A"]
BYTES = ["<s>", "<pad>", "</s>", "<unk>", *"abAcĠÃ¤", "ab", "<mask>"]


@pytest.mark.parametrize("name, arguments", [
    ("Bert", dict(vocabulary=PIECES)),
    ("Bert", dict(vocabulary=PIECES, lowercase=True)),
    ("Roberta", dict(vocabulary={token: number for number, token in enumerate(BYTES)}, merges=["a b"])),
])  # fmt: skip
def test_tokenizers_of_presets(name, arguments, tmp_path):
    size = len(arguments["vocabulary"])
    getattr(keras_hub.models, f"{name}Backbone")(**SIZES, vocabulary_size=size).save_to_preset(str(tmp_path))
    theirs = getattr(keras_hub.tokenizers, f"{name}Tokenizer")(**arguments)
    theirs.save_to_preset(str(tmp_path))
    texts = TEXTS[:2] if arguments.get("lowercase") else TEXTS  # ours takes accents away then
    ours = tokenizer_of(tmp_path, max_length=20)
    assert [list(row[1:-1]) for row in ours.encode(texts)] == [list(map(int, theirs(text))) for text in texts]


def test_settings_of_tokenizers_of_presets(tmp_path):
    keras_hub.models.BertBackbone(**SIZES, vocabulary_size=len(PIECES)).save_to_preset(str(tmp_path))
    for arguments in (dict(sequence_length=8), dict(strip_accents=True), dict(strip_accents=True, lowercase=True)):
        theirs = keras_hub.tokenizers.BertTokenizer(PIECES, **arguments)
        theirs.save_to_preset(str(tmp_path))
        if "sequence_length" in arguments:
            with refused("not supported", {"sequence_length": 8}):
                tokenizer_of(tmp_path)
        else:
            assert [list(row[1:-1]) for row in tokenizer_of(tmp_path).encode(["á Áb"])] == [list(theirs("á Áb"))]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of KerasHub's T5, whose attention is given a mask
def test_the_tokenizer_of_a_t5(tmp_path):
    train_sentencepiece(["a cat sat", "cats sit"] * 9, tmp_path / "pieces.model", 24)
    t5 = keras_hub.models.T5Backbone(**SIZES, vocabulary_size=32)
    theirs = keras_hub.tokenizers.T5Tokenizer(str(tmp_path / "pieces.model"))
    for part in (t5, theirs):
        part.save_to_preset(str(tmp_path / "preset"))
    assert list(tokenizer_of(tmp_path / "preset").encode(["a cat"])[0][:-1]) == list(map(int, theirs("a cat")))
    (tmp_path / "preset" / "assets" / "tokenizer" / "vocabulary.spm").unlink()
    with refused("vocabulary.spm", tmp_path, FileNotFoundError):
        tokenizer_of(tmp_path / "preset")


def test_summed_interacting_heads():
    ours = Bert(20, 8, 12, num_layers=2, num_heads=2, activation="gelu_tanh", attention="interacting")
    ours.build()
    inputs = {"token_ids": IDS * MASK, "padding_mask": MASK, "segment_ids": np.zeros_like(IDS)}
    found, expected = to_keras_hub(randomize(ours, 1))(inputs), ours(IDS * MASK)
    for name in ("sequence_output", "pooled_output"):
        valid = MASK > 0 if name == "sequence_output" else slice(None)
        np.testing.assert_allclose(array(found[name])[valid], array(expected[name])[valid], atol=1e-5)


@pytest.mark.parametrize("key", ["vocabulary_size", "num_layers", "intermediate_dim", "hidden_dim"])
def test_a_preset_of_huge_sizes(key, tmp_path):
    backbone("Bert").save_to_preset(str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    config["config"][key] = 10**9
    (tmp_path / "config.json").write_text(json.dumps(config))
    with refused(key, f"{key}=1000000000 in {tmp_path}"):
        from_pretrained(tmp_path)


def bert(**arguments):
    return lambda: to_keras_hub(Bert(20, **SIZES, **({"activation": "gelu_tanh"} | arguments)))


test_refused = refusals(
    (bert(activation="gelu"), "no equivalent", "activation='gelu'"),
    (bert(pooler=False), "no equivalent", "pooler=False"),
    (bert(attention="talking_heads"), "no equivalent", "TalkingHeadsAttention"),
    (lambda: from_keras_hub(object()), "backbone", "<object object"),
)
