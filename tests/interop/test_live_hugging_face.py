"""The same outputs as live models of Hugging Face's transformers with random weights, saved by it and imported here.

And the other way: transformers reads what `to_hugging_face` writes.
"""

import json
import re

import numpy as np
import pytest

from keras_headattn.decoding import Searcher
from keras_headattn.interop import from_pretrained, generation_settings, to_hugging_face
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import TransformerEncoder
from keras_headattn.positions import LearnedPositions
from tests.interop.translators import ENGLISH, GERMAN, pair_of, transformer
from tests.layers.harness import array, check_close

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 17, 16, 4, 2, 12
ENCODER = dict(
    vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=24,
    max_position_embeddings=LENGTH,
)  # fmt: skip
T5 = dict(
    vocab_size=VOCABULARY, d_model=WIDTH, d_kv=6, d_ff=24, num_layers=LAYERS, num_heads=HEADS,
    relative_attention_num_buckets=8, relative_attention_max_distance=9, decoder_start_token_id=0, pad_token_id=0,
)  # fmt: skip


def saved(libraries, config, model, folder):
    """Their model of these classes, with random weights, and its folder."""
    torch, transformers = libraries
    torch.manual_seed(0)
    theirs = getattr(transformers, model)(config)
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad and "embed_positions" not in name:
            torch.nn.init.normal_(parameter, std=0.4)
    if hasattr(theirs, "final_logits_bias"):
        theirs.final_logits_bias.normal_()
    theirs.save_pretrained(folder)
    return theirs.eval()


def random_ids(pad_id, length=7):
    ids = np.random.default_rng(length).integers(3, VOCABULARY - 1, (2, length))
    ids[0, 5:] = pad_id
    return ids.astype("int32")


@pytest.mark.parametrize("name, own", [
    ("Bert", {}), ("Bert", {"hidden_act": "gelu_new"}), ("Roberta", {"type_vocab_size": 1, "pad_token_id": 1}),
    ("Electra", {"embedding_size": 8}), ("Electra", {"embedding_size": WIDTH}),
    ("XLMRoberta", {"type_vocab_size": 1, "pad_token_id": 1}), ("Camembert", {"type_vocab_size": 1, "pad_token_id": 1}),
])  # fmt: skip
def test_encoders(libraries, name, own, tmp_path):
    torch, transformers = libraries
    config = getattr(transformers, f"{name}Config")(**ENCODER, **own)
    theirs = saved(libraries, config, f"{name}Model", tmp_path)
    ids = random_ids(config.pad_token_id)
    real = ids != config.pad_token_id
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), torch.tensor(real).long()).last_hidden_state.numpy()
    ours = from_pretrained(tmp_path)
    check_close(array(ours(ids)["sequence_output"])[real], expected[real], 1e-5)
    model_type = "roberta" if config.pad_token_id == 1 else name.lower()
    to_hugging_face(ours, tmp_path / "back", model_type=model_type)
    again = getattr(transformers, f"{name}Model").from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        found = again(torch.tensor(ids), torch.tensor(real).long()).last_hidden_state.numpy()
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("proj, tied", [("relu", True), ("gated-gelu", False)])
def test_t5(libraries, proj, tied, tmp_path):
    torch, transformers = libraries
    config = transformers.T5Config(**T5, feed_forward_proj=proj, tie_word_embeddings=tied)
    theirs = saved(libraries, config, "T5ForConditionalGeneration", tmp_path)
    ids, target = random_ids(0), random_ids(0, 4)
    inputs = dict(input_ids=torch.tensor(ids), attention_mask=torch.tensor(ids != 0).long())
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=torch.tensor(target)).logits.numpy()
    ours = from_pretrained(tmp_path)
    check_close(ours({"source": ids, "target": target}), expected, 1e-5)
    to_hugging_face(ours, tmp_path / "back")
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        found = again(**inputs, decoder_input_ids=torch.tensor(target)).logits.numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("own_output", [False, True])
def test_mt5(libraries, own_output, tmp_path):
    """T5 1.1 under another name, with an output layer of its own in old files."""
    torch, transformers = libraries
    theirs = saved(libraries, transformers.MT5Config(**T5), "MT5ForConditionalGeneration", tmp_path)
    if own_output:
        theirs.lm_head.weight = torch.nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        (tmp_path / "model.safetensors").unlink()
        state = theirs.state_dict() | dict(theirs.named_parameters())
        torch.save(state, tmp_path / "pytorch_model.bin")
    ids, target = random_ids(0), random_ids(0, 4)
    inputs = dict(input_ids=torch.tensor(ids), attention_mask=torch.tensor(ids != 0).long())
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=torch.tensor(target)).logits.numpy()
    check_close(from_pretrained(tmp_path)({"source": ids, "target": target}), expected, 1e-5)


@pytest.mark.parametrize("name, proj", [("T5", "relu"), ("T5", "gated-gelu"), ("MT5", "gated-gelu")])
def test_encoders_of_t5(libraries, name, proj, tmp_path):
    torch, transformers = libraries
    config = getattr(transformers, f"{name}Config")(**T5, feed_forward_proj=proj)
    theirs = saved(libraries, config, f"{name}EncoderModel", tmp_path)
    ids = random_ids(0)
    with torch.no_grad():
        inputs = dict(input_ids=torch.tensor(ids), attention_mask=torch.tensor(ids != 0).long())
        expected = theirs(**inputs).last_hidden_state.numpy()
    ours = from_pretrained(tmp_path)
    assert isinstance(ours, TransformerEncoder)
    check_close(array(ours(ids))[ids != 0], expected[ids != 0], 1e-5)
    other = from_pretrained(tmp_path, attention="evolving", dropout=0.0)
    assert other.blocks[0].attention.scale == 1.0 and not other.blocks[0].attention.use_bias


def marian_that_prefers_padding(libraries, folder):
    """As converted Marian models are: a row of zeros for padding, and large negative logits for all else."""
    torch, transformers = libraries
    pad_id = VOCABULARY - 1
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, scale_embedding=True, pad_token_id=pad_id,
        decoder_start_token_id=pad_id, eos_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    theirs = saved(libraries, config, "MarianMTModel", folder)
    with torch.no_grad():
        norm = theirs.model.decoder.layers[0].final_layer_norm
        norm.weight.fill_(1)
        norm.bias.zero_()
        torch.manual_seed(2)
        theirs.model.shared.weight.normal_(std=0.5)
        theirs.model.shared.weight[pad_id] = 0
        theirs.final_logits_bias[0] = -9
        theirs.final_logits_bias[0, pad_id] = 0
    theirs.generation_config.update(
        bad_words_ids=[[pad_id], [4]], num_beams=1, max_length=7, renormalize_logits=True, forced_eos_token_id=0
    )
    theirs.save_pretrained(folder)
    return theirs


def searched(torch, theirs, ours, settings, **options):
    """Ids of both, with padding and id 0 in each other's places as ours are."""
    pad_id, length = VOCABULARY - 1, settings["max_length"]
    source = random_ids(pad_id)
    found = theirs.generate(
        torch.tensor(source), attention_mask=torch.tensor(source != pad_id).long(), forced_eos_token_id=0,
        output_scores=True, return_dict_in_generate=True, **options,
    )  # fmt: skip
    places = np.arange(VOCABULARY)
    places[[0, pad_id]] = pad_id, 0
    expected = places[found.sequences[:, 1:].numpy()]
    expected = np.pad(expected, ((0, 0), (0, length - expected.shape[1])))
    return Searcher(ours, **settings)(places[source].astype("int32")), expected, found


def test_a_marian_never_produces_padding(libraries, tmp_path):
    torch, _ = libraries
    theirs = marian_that_prefers_padding(libraries, tmp_path)
    ours, settings = from_pretrained(tmp_path), generation_settings(tmp_path)
    assert settings == dict(
        beam_size=1, start_id=0, end_id=VOCABULARY - 1, suppress=[0, 4], force_end=True, max_length=6
    )
    assert ours.suppress == (0, 4)
    result, expected, _ = searched(torch, theirs, ours, settings)
    np.testing.assert_array_equal(result["tokens"][:, 0], expected)
    assert len(np.unique(expected)) > 2
    # So it is where no file says so.
    (tmp_path / "generation_config.json").unlink()
    assert from_pretrained(tmp_path).suppress == (0,)
    settings |= dict(beam_size=8, alpha=0.0)  # wide, as theirs lets a hypothesis end only among the first K
    result, expected, found = searched(
        torch, theirs, ours, settings, num_beams=8, length_penalty=0.0, early_stopping="never"
    )
    best = result["tokens"][:, 0]
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_allclose(result["scores"][:, 0], found.sequences_scores, rtol=1e-4)
    to_hugging_face(ours, tmp_path / "back")
    back = from_pretrained(tmp_path / "back")
    assert back.suppress == (0, 4) and back.force_end
    type(theirs).from_pretrained(tmp_path / "back")


@pytest.mark.parametrize("name, value", [("min_length", 6), ("no_repeat_ngram_size", 1), ("no_repeat_ngram_size", 2)])
def test_constraints(libraries, name, value, tmp_path):
    torch, _ = libraries
    theirs = marian_that_prefers_padding(libraries, tmp_path)
    theirs.generation_config.update(**{name: value})
    theirs.save_pretrained(tmp_path)
    ours, settings = from_pretrained(tmp_path), generation_settings(tmp_path)
    assert name in settings
    result, expected, _ = searched(torch, theirs, ours, settings)
    np.testing.assert_array_equal(result["tokens"][:, 0], expected)


def test_repetition_penalty(libraries, tmp_path):
    torch, _ = libraries
    theirs = marian_that_prefers_padding(libraries, tmp_path)
    ours, settings = from_pretrained(tmp_path), generation_settings(tmp_path)
    plain, _, _ = searched(torch, theirs, ours, settings)
    result, expected, _ = searched(torch, theirs, ours, settings | {"repetition_penalty": 3.0}, repetition_penalty=3.0)
    np.testing.assert_array_equal(result["tokens"][:, 0], expected)
    assert (array(result["tokens"]) != array(plain["tokens"])).any()


@pytest.mark.parametrize("activation", ["relu", "swish"])
@pytest.mark.parametrize("name", ["Marian", "M2M100", "Blenderbot"])
def test_translators(libraries, name, activation, tmp_path):
    """Marian has post-norm blocks, the others pre-norm; M2M100 the sinusoids of tensor2tensor, Blenderbot a table."""
    torch, transformers = libraries
    shape = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (
        ("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 24),
    )}  # fmt: skip
    pad_id = {"Marian": VOCABULARY - 1, "M2M100": 1, "Blenderbot": 0}[name]
    own = dict(decoder_vocab_size=VOCABULARY) if name == "Marian" else {}
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY, d_model=WIDTH, activation_function=activation, max_position_embeddings=LENGTH,
        scale_embedding=True, pad_token_id=pad_id, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, **shape,
        **own,
    )  # fmt: skip
    model = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    theirs = saved(libraries, config, model, tmp_path)
    source, target = random_ids(pad_id), random_ids(pad_id, 4)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(source != pad_id).long(),
            decoder_input_ids=torch.tensor(target),
        ).logits.numpy()
    ours = from_pretrained(tmp_path)
    # Padding and id 0 are in each other's places.
    places = np.arange(VOCABULARY)
    places[[0, pad_id]] = pad_id, 0
    found = array(ours({"source": places[source].astype("int32"), "target": places[target].astype("int32")}))
    check_close(found[..., places], expected, 1e-5)
    if name == "Blenderbot":  # leaves with its tokenizers alone
        return
    to_hugging_face(ours, tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["pad_token_id"] == pad_id
    again = getattr(transformers, model).from_pretrained(tmp_path / "back")
    state, back = theirs.state_dict(), again.state_dict()
    assert all(torch.equal(state[key], back[key]) for key in state if "embed_positions" not in key)  # a longer table


@pytest.mark.parametrize("shared, arguments, name", [
    (True, dict(normalization="pre"), "BlenderbotForConditionalGeneration"),
    (True, dict(normalization="pre", positions=LearnedPositions(40), output_bias=True), "BlenderbotForConditional.*"),
    (True, dict(normalization="pre", tie_output=False), "BlenderbotForConditionalGeneration"),
    (True, dict(num_decoder_layers=1, output_bias=True), "MarianMTModel"),
    (False, dict(attention=MultiHeadAttention(4, 8, use_bias=False)), "MarianMTModel"),
    (False, dict(tie_output=False, output_bias=True), "MarianMTModel"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_own_transformers(libraries, shared, arguments, name, tmp_path):
    """Logits and greedy translations of models with this library's defaults, by AutoModel and AutoTokenizer."""
    torch, transformers = libraries
    pair = pair_of(tmp_path / "pair", shared)
    ours = transformer(pair, **arguments)
    to_hugging_face(ours, tmp_path / "out", source_tokenizer=pair.source, target_tokenizer=pair.target)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert re.fullmatch(name, type(theirs).__name__)
    inputs, ids = tokenizer(ENGLISH, return_tensors="pt", padding=True), np.array(pair.source(ENGLISH))
    np.testing.assert_array_equal(inputs["input_ids"].numpy(), ids)
    target = np.array(pair.target(GERMAN))
    with torch.no_grad():
        found = theirs(**inputs, decoder_input_ids=torch.tensor(target)).logits.numpy()
    check_close(array(ours({"source": ids, "target": target})), found, 1e-5)
    expected = Searcher(ours, 1, 0.0, 9, pair.target.bos_id, pair.target.eos_id)(ids)["tokens"][:, 0]
    made = theirs.generate(**inputs, max_new_tokens=9)
    expected = [text.replace("\N{DOUBLE QUESTION MARK}", "").split() for text in pair.decode(expected)]
    assert [text.split() for text in tokenizer.batch_decode(made, skip_special_tokens=True)] == expected
