"""T5 1.0 and 1.1 as Hugging Face's transformers has them: expected outputs of tiny checkpoints, and live models."""

import json
import os
import pathlib
import warnings

import numpy as np
import pytest

from keras_headattn.decoding import Searcher
from keras_headattn.models import T5
from tests.models.small import array, check_close

SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared"))
SIZES = dict(
    vocabulary_size=60, hidden_dim=16, intermediate_dim=24, num_layers=3, num_heads=4, key_dim=6
)  # as wide as neither is the other
VERSIONS = {"t5": {}, "t5_v1_1": dict(gated=True, activation="gelu_tanh", tie_output=False)}
ATTENTIONS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention"}
START = 0
ENDS = {"t5": 18, "t5_v1_1": 16}  # which some of the texts that are generated have


def make(version, **arguments):
    model = T5(**{**SIZES, **VERSIONS[version], **arguments})
    model.build()
    return model


def copy_by_name(state, model):
    """Gives the model the weights of a checkpoint, a dictionary of names to arrays; all must be used."""
    left = dict(state)

    def take(name, weight):
        weight.assign(left.pop(name).T.reshape(weight.shape) if weight.name == "kernel" else left.pop(name))

    take("shared.weight", model.target_embedding.embeddings)
    if model.output_projection:
        take("lm_head.weight", model.output_projection.kernel)
    for stack, blocks, norm, positions in zip(
        ("encoder", "decoder"),
        (model.encoder_blocks, model.decoder_blocks),
        model.norms,
        model.relative_positions,
        strict=True,
    ):
        take(f"{stack}.final_layer_norm.weight", norm.scale)
        table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        take(table, positions.embeddings)
        for i, block in enumerate(blocks):
            names = [name for name in ATTENTIONS if ATTENTIONS[name] in block.attentions]
            for j, name in enumerate([*names, "DenseReluDense"]):
                prefix = f"{stack}.block.{i}.layer.{j}"
                take(f"{prefix}.layer_norm.weight", block.norms[ATTENTIONS.get(name, "feed_forward")].scale)
                for theirs, dense in _dense(block, name).items():
                    take(f"{prefix}.{name}.{theirs}.weight", dense.kernel)
    assert not left
    return model


def _dense(block, name):
    if name in ATTENTIONS:
        layer = block.attentions[ATTENTIONS[name]]
        return {"q": layer.query_dense, "k": layer.key_dense, "v": layer.value_dense, "o": layer.output_dense}
    inner = block.feed_forward.inner
    inputs = {"wi_0": inner, "wi_1": block.feed_forward.gate} if block.feed_forward.gated else {"wi": inner}
    return inputs | {"wo": block.feed_forward.outer}


# --------------------------------------------------------------------------------------------- checkpoints


def read_safetensors(path):
    """Names to arrays of a file of float32 tensors: length of the header, header, numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    assert {tensor["dtype"] for tensor in header.values()} == {"F32"}
    return {
        name: np.frombuffer(data[start + first : start + last], "<f4").reshape(tensor["shape"])
        for name, tensor in header.items()
        for first, last in [tensor["data_offsets"]]
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_checkpoint(version):
    folder = SHARED / "data" / "ckpt_hf_tiny" / version
    if not folder.exists():
        pytest.skip(f"needs the checkpoint {folder}: set HEADATTN_SHARED")
    model = copy_by_name(read_safetensors(folder / "model.safetensors"), make(version))
    with np.load(folder / "expected.npz") as expected:
        source, real = expected["ids"] * expected["mask"], expected["mask"] == 1
        check_close(array(model.encode(source))[real], expected["encoder_hidden"][real], 1e-5)
        logits = model({"source": source, "target": expected["decoder_ids"]})
        # Those of 1.1 are 6.4e-5 from the same model in float64: its attention is near to one-hot.
        check_close(logits, expected["logits"], 1e-5 if version == "t5" else 2e-5)


# --------------------------------------------------------------------------------------------- live models


@pytest.fixture(scope="module", params=VERSIONS)
def pair(request, libraries):
    """Their model, ours, and an end symbol."""
    torch, transformers = libraries
    newer = request.param == "t5_v1_1"
    config = transformers.T5Config(
        vocab_size=60, d_model=16, d_ff=24, d_kv=6, num_layers=3, num_heads=4, decoder_start_token_id=START,
        feed_forward_proj="gated-gelu" if newer else "relu", tie_word_embeddings=not newer,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = transformers.T5ForConditionalGeneration(config).eval()
    if newer:  # a new layer, as the library may tie it whatever its configuration says
        theirs.lm_head = torch.nn.Linear(16, 60, bias=False)
    state = dict(theirs.named_parameters())
    for name, parameter in state.items():
        is_table = name in ("shared.weight", "lm_head.weight") or "relative" in name
        mean, std = ("layer_norm" in name) * 1.0, 1.0 if is_table else 0.3  # so that generated texts vary
        torch.nn.init.normal_(parameter, mean, std)
    ours = copy_by_name({name: tensor.detach().numpy() for name, tensor in state.items()}, make(request.param))
    return theirs, ours, ENDS[request.param]


def sources(torch):
    ids = np.random.default_rng(0).integers(2, 60, (4, 150))
    ids[0, 100:] = ids[1, 3:] = 0
    return ids, {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(ids != 0).long()}


def test_logits(libraries, pair):
    """Targets so long that each bucket of distances occurs."""
    torch, (theirs, ours, _) = libraries[0], pair
    source, inputs = sources(torch)
    target = np.random.default_rng(1).integers(2, 60, (4, 140))
    target[:, 0] = START
    with torch.no_grad():
        expected = theirs(**inputs, decoder_input_ids=torch.tensor(target)).logits.numpy()
    assert np.ptp(expected) > 1
    check_close(ours({"source": source, "target": target}), expected, 1e-5)


def generated(torch, theirs, inputs, end):
    """Token ids `(B, 12)`, zeros after the end."""
    settings = dict(max_new_tokens=12, do_sample=False, eos_token_id=end, pad_token_id=0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokens = theirs.generate(**inputs, **settings)[:, 1:].numpy()
    assert (tokens == end).any()
    return np.pad(tokens, ((0, 0), (0, 12 - tokens.shape[1])))


def test_greedy_search(libraries, pair):
    torch, (theirs, ours, end) = libraries[0], pair
    source, inputs = sources(torch)
    expected = generated(torch, theirs, inputs, end)
    found = Searcher(ours, beam_size=1, max_length=12, start_id=START, end_id=end)(source)["tokens"]
    np.testing.assert_array_equal(array(found)[:, 0], expected)


def test_beam_search(libraries, pair):
    """The scores are the log probabilities that their model gives to what ours finds."""
    torch, (theirs, ours, end) = libraries[0], pair
    source, inputs = sources(torch)
    found = Searcher(ours, beam_size=3, alpha=0.0, max_length=12, start_id=START, end_id=end)(source)
    tokens = array(found["tokens"])[:, 0].astype("int64")
    assert (tokens == end).any()
    with torch.no_grad():
        logits = theirs(**inputs, decoder_input_ids=torch.tensor(np.pad(tokens, ((0, 0), (1, 0)))[:, :-1])).logits
    gained = np.take_along_axis(torch.log_softmax(logits, -1).numpy(), tokens[..., None], axis=2)[..., 0]
    until_end = np.cumsum(tokens == end, axis=1) - (tokens == end) == 0
    check_close(array(found["scores"])[:, 0], (gained * until_end).sum(axis=1), 1e-5)
