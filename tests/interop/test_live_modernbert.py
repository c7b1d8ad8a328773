"""The same outputs as live ModernBERTs of Hugging Face's transformers with random weights, saved by it."""

import numpy as np
import pytest

from keras_headattn.interop import from_pretrained, to_hugging_face
from tests.interop.test_live_hugging_face import saved
from tests.layers.harness import array, check_close

VOCABULARY, PAD = 19, 17
CONFIG = dict(
    vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=5, num_attention_heads=4, intermediate_size=24,
    local_attention=4, pad_token_id=PAD, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
)  # fmt: skip


def texts():
    """Token ids, longer than windows; the second text ends with padding."""
    ids = np.random.default_rng(0).integers(3, PAD, (3, 11)).astype("int32")
    ids[1, 7:] = PAD
    return ids, ids != PAD


def check_back(libraries, ours, theirs, folder, name, expected):
    """What leaves here gives the same there, in the same tensors."""
    to_hugging_face(ours, folder)
    again = type(theirs).from_pretrained(folder).eval()
    ids, real = texts()
    where = real if expected.ndim == 3 else slice(None)
    found = getattr(outputs(libraries, again, ids, real), name).numpy()
    np.testing.assert_allclose(found[where], expected[where], atol=1e-5)
    state, back = theirs.state_dict(), again.state_dict()
    assert all(libraries[0].equal(state[key], back[key]) for key in state) and state.keys() == back.keys()


def outputs(libraries, theirs, ids, real):
    torch, _ = libraries
    with torch.no_grad():
        return theirs(torch.tensor(ids), torch.tensor(real).long())


@pytest.mark.parametrize("own", [
    {}, dict(attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True),
    dict(layer_types=["full_attention"] * 5), dict(hidden_activation="silu", global_attn_every_n_layers=2),
])  # fmt: skip
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_states(libraries, own, attention, tmp_path):
    _, transformers = libraries
    theirs = saved(libraries, transformers.ModernBertConfig(**CONFIG, **own), "ModernBertModel", tmp_path)
    theirs.set_attn_implementation(attention)
    ids, real = texts()
    expected = outputs(libraries, theirs, ids, real).last_hidden_state.numpy()
    ours = from_pretrained(tmp_path)
    check_close(array(ours(ids)["sequence_output"])[real], expected[real], 1e-5)
    check_back(libraries, ours, theirs, tmp_path / "back", "last_hidden_state", expected)


def test_the_windows_of_published_sizes(libraries, tmp_path):
    """Of 128 tokens, of which each end is 64 away; and bases of 160,000 and 10,000."""
    _, transformers = libraries
    config = transformers.ModernBertConfig(**CONFIG | dict(local_attention=128))
    theirs = saved(libraries, config, "ModernBertModel", tmp_path)
    ids = np.random.default_rng(1).integers(3, PAD, (1, 200)).astype("int32")
    expected = outputs(libraries, theirs, ids, ids != PAD).last_hidden_state.numpy()
    check_close(from_pretrained(tmp_path)(ids)["sequence_output"], expected, 1e-5)


def test_masked_lm(libraries, tmp_path):
    _, transformers = libraries
    theirs = saved(libraries, transformers.ModernBertConfig(**CONFIG), "ModernBertForMaskedLM", tmp_path)
    ids, real = texts()
    expected = outputs(libraries, theirs, ids, real).logits.numpy()
    ours = from_pretrained(tmp_path, head="masked_lm")
    check_close(array(ours(ids))[real], expected[real], 1e-5)
    check_back(libraries, ours, theirs, tmp_path / "back", "logits", expected)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_classifier(libraries, pooling, tmp_path):
    _, transformers = libraries
    config = transformers.ModernBertConfig(**CONFIG, classifier_pooling=pooling, num_labels=3)
    theirs = saved(libraries, config, "ModernBertForSequenceClassification", tmp_path)
    ids, real = texts()
    expected = outputs(libraries, theirs, ids, real).logits.numpy()
    ours = from_pretrained(tmp_path, head="classifier")
    check_close(ours(ids), expected, 1e-5)
    check_back(libraries, ours, theirs, tmp_path / "back", "logits", expected)


@pytest.mark.parametrize(
    "head, name, output",
    [
        ("token_classifier", "ModernBertForTokenClassification", "logits"),
        ("span_answerer", "ModernBertForQuestionAnswering", "start_logits"),
    ],
)
def test_heads_of_tokens(libraries, head, name, output, tmp_path):
    _, transformers = libraries
    config = transformers.ModernBertConfig(**CONFIG, num_labels=2)
    theirs = saved(libraries, config, name, tmp_path)
    ids, real = texts()
    expected = getattr(outputs(libraries, theirs, ids, real), output).numpy()
    ours = from_pretrained(tmp_path, head=head)
    found = array(ours(ids))
    check_close((found[:, 0] if head == "span_answerer" else found)[real], expected[real], 1e-5)
    to_hugging_face(ours, tmp_path / "back")
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    back = getattr(outputs(libraries, again, ids, real), output).numpy()
    np.testing.assert_allclose(back[real], expected[real], atol=1e-5)
