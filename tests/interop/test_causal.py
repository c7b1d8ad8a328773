"""Decoder-only language models, with the logits and greedy texts of Hugging Face's transformers.

Golden vectors are of its random models; live ones have further settings, and read what is written here.
"""

import functools
import json

import numpy as np
import pytest
from keras import activations
from safetensors.numpy import save_file

from keras_headattn.interop import from_pretrained, read_config, read_tensors, to_hugging_face
from keras_headattn.layers import KnockingHeadsAttention, MultiHeadAttention
from keras_headattn.models import CausalLM
from keras_headattn.positions import RotaryPositions
from tests.interop.test_live_hugging_face import saved
from tests.layers.harness import array, check_close

KINDS = "gpt2", "llama", "mistral", "qwen2", "qwen3", "smollm3", "gpt_neox", "gemma2", "gemma3"
SIZES = dict(
    vocab_size=23, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=24,
    max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
IDS = np.random.default_rng(0).integers(3, 23, (2, 9)).astype("int32")


def close(actual, expected):
    """Compares logits within 1e-5 of the largest."""
    actual, expected = array(actual), array(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def tensors_of(golden):
    return {name.removeprefix("tensor/"): golden[name] for name in golden if name.startswith("tensor/")}


def written(golden, folder, tensors=None, without=(), **changes):
    """Writes the checkpoint of golden vectors, with other tensors or settings."""
    folder.mkdir(exist_ok=True)
    config = {key: x for key, x in json.loads(str(golden["meta_json"])).items() if key not in without} | changes
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors or tensors_of(golden), folder / "model.safetensors")
    return folder


def greedy(model, ids, count):
    """Appends the likeliest tokens, one step each with a cache."""
    length = ids.shape[1]
    logits, cache = model.prefill(ids, model.init_cache(len(ids), length + count))
    ids = np.concatenate([ids, array(logits).argmax(-1)[:, None]], axis=1)
    for index in range(length, length + count - 1):
        logits, cache = model.decode_step(ids[:, -1:].astype("int32"), cache, index)
        ids = np.concatenate([ids, array(logits)[:, 0].argmax(-1)[:, None]], axis=1)
    return ids


@pytest.mark.parametrize("kind", KINDS)
def test_golden(kind, golden, tmp_path):
    """Logits; greedy text; and out and in again, bit for bit."""
    vectors = golden(f"causal_{kind}.npz")
    model, report = from_pretrained(written(vectors, tmp_path / "theirs"), return_report=True)
    assert isinstance(model, CausalLM) and not report.initialised and not report.left_over
    close(model(vectors["ids"]), vectors["logits"])
    text = vectors["text"]
    np.testing.assert_array_equal(greedy(model, vectors["ids"][:, :4], text.shape[1] - 4), text)
    to_hugging_face(model, tmp_path / "back")
    back, theirs = read_tensors(tmp_path / "back"), tensors_of(vectors)
    assert back.keys() == theirs.keys()
    for name, tensor in theirs.items():
        is_shifted = kind.startswith("gemma") and name.endswith("norm.weight")  # 1 is added and subtracted
        np.testing.assert_allclose(back[name], tensor, rtol=0, atol=1e-7 * is_shifted)
    for ours, again in zip(model.get_weights(), from_pretrained(tmp_path / "back").get_weights(), strict=True):
        np.testing.assert_array_equal(again, ours)


@pytest.mark.parametrize("kind, changes", [
    ("llama", dict(rope_theta=5e5, rope_scaling=dict(
        type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8))),
    ("qwen2", dict(rope_theta=1e6, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=8))),
    ("qwen3", dict(rope_theta=1e6, rope_scaling=dict(type="linear", factor=2.0))),
    ("gpt_neox", dict(rotary_emb_base=10_000, rotary_pct=0.5)),
    ("gemma3", dict(rope_theta=1e6, rope_local_base_freq=1e4, sliding_window_pattern=3)),
])  # fmt: skip
def test_older_configurations(kind, changes, golden, tmp_path):
    """Rotary settings, windows and blocks without positions as older versions wrote them."""
    vectors = golden(f"causal_{kind}.npz")
    model = from_pretrained(written(vectors, tmp_path, without=("rope_parameters", "layer_types"), **changes))
    close(model(vectors["ids"]), vectors["logits"])


def test_older_smollm3(golden, tmp_path):
    vectors = golden("causal_smollm3.npz")
    model = from_pretrained(written(vectors, tmp_path, without=("rope_parameters", "layer_types", "no_rope_layers")))
    close(model(vectors["ids"]), vectors["logits"])


def test_older_gpt2(golden, tmp_path):
    """Without the prefix, and with buffers and a copy of the embedding."""
    vectors = golden("causal_gpt2.npz")
    tensors = {name.removeprefix("transformer."): x for name, x in tensors_of(vectors).items()}
    tensors |= {"h.0.attn.bias": np.ones((1, 1, 32, 32), "float32"), "h.1.attn.masked_bias": np.ones(1, "float32")}
    tensors |= {"lm_head.weight": tensors["wte.weight"].copy()}
    close(from_pretrained(written(vectors, tmp_path, tensors))(vectors["ids"]), vectors["logits"])


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_epsilon_of_qk_norm(kind, golden, tmp_path):
    """It is that of the other norms; `test_live` compares the logits."""
    vectors = golden(f"causal_{kind}.npz")
    model = from_pretrained(written(vectors, tmp_path / "theirs", rms_norm_eps=1e-3))
    assert model.blocks[0].attention.qk_norm == 1e-3
    assert np.abs(array(model(vectors["ids"])) - vectors["logits"]).max() > 1e-3
    to_hugging_face(model, tmp_path / "back")
    assert read_config(tmp_path / "back")["rms_norm_eps"] == 1e-3
    np.testing.assert_array_equal(array(from_pretrained(tmp_path / "back")(IDS % 20)), array(model(IDS % 20)))


def test_overrides_reach_all_blocks(golden, tmp_path):
    folder = written(golden("causal_gpt2.npz"), tmp_path / "gpt2")
    for block in from_pretrained(folder, dropout=0.0, activation="relu").blocks:
        assert block.attention.dropout == 0 and block.feed_forward.activation is activations.relu
    folder, positions = written(golden("causal_gemma3.npz"), tmp_path / "gemma3"), RotaryPositions(123.0)
    blocks = from_pretrained(folder, relative_positions=positions).blocks
    assert {block.attention.relative_positions.max_wavelength for block in blocks} == {123.0}
    with pytest.warns(UserWarning, match="Quality"):
        blocks = from_pretrained(folder, attention_arguments={"sliding_window": None}).blocks
    assert {block.attention.sliding_window for block in blocks} == {None}


def test_parts(golden, tmp_path):
    vectors = golden("causal_llama.npz")
    tensors = [*tensors_of(vectors).items()]
    written(vectors, tmp_path, tensors_of(vectors))
    (tmp_path / "model.safetensors").unlink()
    parts = {"model-1.safetensors": dict(tensors[::2]), "model-2.safetensors": dict(tensors[1::2])}
    for name, part in parts.items():
        save_file(part, tmp_path / name)
    index = {name: part for part, names in parts.items() for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    close(from_pretrained(tmp_path)(vectors["ids"]), vectors["logits"])


# Other attention


@pytest.mark.parametrize("kind, attention", [
    ("gpt2", "talking_heads"), ("gpt2", "knocking_heads"), ("gpt2", "multi_token"), ("gpt2", "interleaved"),
    ("gpt2", "disentangled_mask"), ("qwen2", "talking_heads"), ("qwen2", MultiHeadAttention), ("gemma3", "multi_token"),
    ("smollm3", ["multi_head", "knocking_heads"]),
])  # fmt: skip
def test_same_start(kind, attention, golden, tmp_path):
    """These compute what the checkpoint does, in all blocks."""
    vectors = golden(f"causal_{kind}.npz")
    model = from_pretrained(written(vectors, tmp_path), attention=attention, start="same")
    close(model(vectors["ids"]), vectors["logits"])


@pytest.mark.parametrize("attention, initialised", [
    ("talking_heads", 4), ("differential", 18), ("collaborative", 4), ("synthesizer", 2), ("real_former", 0),
])  # fmt: skip
def test_lost_quality(attention, initialised, golden, tmp_path):
    folder = written(golden("causal_gpt2.npz"), tmp_path)
    with pytest.warns(UserWarning, match=r"Quality is lost .*% away"):
        _, report = from_pretrained(folder, attention=attention, return_report=True)
    assert len(report.initialised) == initialised


def test_means_of_groups(golden, tmp_path):
    """Fewer key and value heads than the checkpoint's are the means of its groups."""
    vectors = golden("causal_llama.npz")
    with pytest.warns(UserWarning, match="Quality"):
        model, report = from_pretrained(
            written(vectors, tmp_path),
            "grouped_query",
            attention_arguments={"num_key_value_heads": 1},
            return_report=True,
        )
    kernel = vectors["tensor/model.layers.1.self_attn.v_proj.weight"].reshape(2, 6, 16).mean(axis=0)
    check_close(model.blocks[1].attention.value_dense.kernel[:, 0], kernel.T)
    assert len(report.averaged) == 8  # keys and values, kernels and biases, of two blocks


def test_knocking_heads_leave_as_plain_ones(golden, tmp_path):
    vectors = golden("causal_qwen2.npz")
    linear = functools.partial(KnockingHeadsAttention, knocking=("query", "key", "value"))
    model = from_pretrained(written(vectors, tmp_path / "theirs"), linear)
    for weight in model.weights:
        if "knocking" in weight.path:
            weight.assign(np.random.default_rng(0).normal(scale=0.3, size=weight.shape))
    to_hugging_face(model, tmp_path / "back")
    close(from_pretrained(tmp_path / "back")(IDS), model(IDS))


# Live


@pytest.mark.parametrize("name, own", [
    ("GPT2", dict(scale_attn_weights=False, activation_function="relu", n_inner=20)), ("GPT2", {}),
    ("Llama", dict(num_key_value_heads=4)), ("Llama", dict(num_key_value_heads=1, mlp_bias=True)),
    ("Mistral", dict(num_key_value_heads=2, sliding_window=None, tie_word_embeddings=True)),
    ("Qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    ("Qwen3", dict(num_key_value_heads=2, head_dim=6, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    ("Qwen3", dict(num_key_value_heads=2, rms_norm_eps=1e-3)),
    ("Gemma3Text", dict(num_key_value_heads=2, rms_norm_eps=1e-3)),
    ("SmolLM3", dict(num_key_value_heads=2, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=3)),
    ("GPTNeoX", dict(use_parallel_residual=False, rotary_pct=0.5)), ("GPTNeoX", dict(rotary_pct=0.5)),
    ("Gemma2", dict(num_key_value_heads=2, head_dim=6, sliding_window=3)),
    ("Gemma3Text", dict(num_key_value_heads=1, head_dim=4, sliding_window=3, final_logit_softcapping=20.0)),
])  # fmt: skip
def test_live(libraries, name, own, tmp_path):
    torch, transformers = libraries
    sizes = {key: size for key, size in SIZES.items() if name != "GPT2" or key != "intermediate_size"}
    config = getattr(transformers, f"{name}Config")(**sizes, **own)
    head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    theirs = saved(libraries, config, f"{name.removesuffix('Text')}{head}", tmp_path)
    with torch.no_grad():
        expected = theirs(torch.tensor(IDS)).logits.numpy()
    ours = from_pretrained(tmp_path)
    close(ours(IDS), expected)
    to_hugging_face(ours, tmp_path / "back", model_type=config.model_type)
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        close(again(torch.tensor(IDS)).logits.numpy(), expected)
        text = theirs.generate(torch.tensor(IDS), max_new_tokens=15, do_sample=False, eos_token_id=None).numpy()
    np.testing.assert_array_equal(greedy(ours, IDS, 15), text)
