"""Models from folders: every layout, every attention, and folders that must be refused."""

import functools
import json
import re
import warnings

import numpy as np
import pytest

from keras_headattn.interop import from_pretrained, tokenizer_of
from keras_headattn.layers import ATTENTIONS, DisentangledMaskAttention, EvolvingAttention, TalkingHeadsAttention
from keras_headattn.models import T5, Bert, TransformerEncoder
from tests.interop.folders import CONFIGS, HEADS, WIDTH, bert_state, ids, numbers, save_tensorflow, state_of, write
from tests.layers.harness import array
from tests.models.encoders import move_weights, of_config
from tests.refusals import refused

KINDS = list(CONFIGS)


def outputs(model, pad_id=0):
    if isinstance(model, T5):
        return array(model({"source": ids(), "target": ids(1, 4)}))
    return array(model(ids(pad_id=pad_id))["sequence_output"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: write(root / kind, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def models(folders):
    return {kind: from_pretrained(folder) for kind, folder in folders.items()}


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_encoders(kind, models):
    """The same as weights moved by hand."""
    by_hand = Bert(**of_config(CONFIGS[kind]))
    by_hand.build()
    move_weights(bert_state(kind), by_hand, kind)
    pad_id = CONFIGS[kind]["pad_token_id"]
    np.testing.assert_array_equal(outputs(models[kind], pad_id), outputs(by_hand, pad_id))


@pytest.mark.parametrize("kind", ["t5", "t5_v1_1"])
def test_t5(kind, models):
    from tests.models.test_t5_hugging_face import copy_by_name

    by_hand = T5(
        30, WIDTH, 12, 2, 1, HEADS, 3, num_buckets=8, max_distance=20,
        **({} if kind == "t5" else dict(gated=True, activation="gelu_tanh", tie_output=False)),
    )  # fmt: skip
    by_hand.build()
    copy_by_name(state_of(kind), by_hand)
    np.testing.assert_array_equal(outputs(models[kind]), outputs(by_hand))


@pytest.mark.parametrize("kind, head", [
    ("bert", "masked_lm"), ("roberta", "masked_lm"), ("electra", "replaced_token"),
])  # fmt: skip
def test_heads(kind, head, folders, models):
    model = from_pretrained(folders[kind], head=head)
    logits = array(model(ids(pad_id=CONFIGS[kind]["pad_token_id"])))
    assert logits.shape == ((2, 6) if head == "replaced_token" else (2, 6, 30)) and np.ptp(logits) > 0.1
    np.testing.assert_array_equal(array(model.encoder.weights[0]), array(models[kind].weights[0]))


def test_a_classifier(tmp_path):
    state = bert_state() | numbers({"classifier.weight": (3, WIDTH), "classifier.bias": (3,)})
    model = from_pretrained(write(tmp_path, "bert", state), head="classifier")
    assert model(ids()).shape == (2, 3)
    np.testing.assert_array_equal(array(model.output_projection.kernel), state["classifier.weight"].T)


@pytest.mark.parametrize(
    "name", sorted(set(ATTENTIONS) - {"collaborative", "differential", "graph", "luong", "synthesizer"})
)
def test_every_attention(name, folders):
    model, report = from_pretrained(folders["bert"], attention=name, return_report=True)
    assert len(report.copied) == 39 and np.isfinite(outputs(model)).all()
    without = ("multi_head", "real_former", "interacting", "grouped_query", "paired_heads")
    assert bool(report.initialised) == (name not in without)
    assert bool(report.averaged) == (name == "grouped_query")


def test_attention_without_keys(folders):
    with refused("nothing was copied", "left over: encoder.layer.0.attention.self.key.bias"):
        from_pretrained(folders["bert"], attention="synthesizer")
    report = from_pretrained(folders["bert"], attention="synthesizer", strict=False, return_report=True)[1]
    assert "block_0/attention/dense_kernel" in report.initialised


@pytest.mark.parametrize("attention", [
    functools.partial(EvolvingAttention, alpha=0.0, beta=0.0),
    functools.partial(TalkingHeadsAttention, mixing_initializer="identity"),
    "knocking_heads",
    "multi_token",
    "interleaved",
    functools.partial(DisentangledMaskAttention, kept_information=0.0),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_attention_that_keeps_the_function(kind, attention, folders, models):
    with warnings.catch_warnings(action="error"):
        model = from_pretrained(folders[kind], attention=attention)
    real = ids() != 0 if kind == "bert" else ...  # outputs of padding are of no use
    np.testing.assert_allclose(outputs(model)[real], outputs(models[kind])[real], atol=2e-6)


@pytest.mark.parametrize("kind, attention, remedy", [
    ("bert", "talking_heads", "Give the attention `mixing_initializer=identity`."), ("t5", "evolving", "docs/migrate"),
])  # fmt: skip
def test_attention_that_starts_elsewhere(kind, attention, remedy, folders):
    with pytest.warns(UserWarning, match=rf"first 2 blocks start \d+\.\d% away from the checkpoint's\. {remedy}"):
        from_pretrained(folders[kind], attention=attention)


def test_the_map_initializer(folders):
    model = from_pretrained(folders["bert"], attention="evolving", map_initializer="identity")
    kernel = array(model.blocks[1].attention.map_kernel)
    np.testing.assert_array_equal(kernel[1, 1], np.eye(HEADS))
    with refused("map_initializer", "attention='multi_head'"):
        from_pretrained(folders["bert"], map_initializer="identity")


def test_padding_with_evolving_attention(folders):
    """A sentence's output does not depend on the padding of its batch."""
    model = from_pretrained(folders["bert"], attention="evolving", max_length=10)
    longer = np.pad(ids(), ((0, 0), (0, 3)))
    found = array(model(longer)["sequence_output"])
    real = ids() != 0
    np.testing.assert_allclose(found[:, :6][real], outputs(model)[real], atol=1e-6)


# Other layouts of the same tensors


def as_tensorflow(state):
    """BERT's and ELECTRA's names and axes in TensorFlow 1."""
    found = {}
    for name, tensor in state.items():
        is_kernel = name.endswith(".weight") and tensor.ndim == 2 and "embeddings." not in name
        name = re.sub(r"LayerNorm\.weight", "LayerNorm.gamma", name)
        name = re.sub(r"LayerNorm\.bias", "LayerNorm.beta", name)
        name = re.sub(r"predictions\.bias", "predictions.output_bias", name)
        name = re.sub(r"_embeddings\.weight", "_embeddings", name).replace(".weight", ".kernel")
        name = re.sub(r"layer\.(\d+)", r"layer_\1", name).replace(".", "/")
        found[name] = tensor.T if is_kernel else tensor
    return found


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_tensorflow_1(kind, tmp_path, models):
    tensors = as_tensorflow(bert_state(kind))
    tensors |= {f"{name}/adam_m": tensor for name, tensor in tensors.items()}
    tensors["global_step"] = np.int64(3)
    save_tensorflow(tmp_path / "model.ckpt", tensors)
    if kind == "bert":
        (tmp_path / "bert_config.json").write_text(json.dumps(CONFIGS[kind]))
    model = from_pretrained(tmp_path, activation="gelu", num_heads=HEADS)
    np.testing.assert_array_equal(outputs(model), outputs(models[kind]))
    activation = {"bert": "gelu_tanh", "electra": "gelu"}[kind]
    assert from_pretrained(tmp_path / "model.ckpt", num_heads=HEADS).activation == activation


def test_tf_model_h5(tmp_path, models):
    import h5py

    write(tmp_path, "bert")
    (tmp_path / "model.safetensors").unlink()
    with h5py.File(tmp_path / "tf_model.h5", "w") as file:
        for name, tensor in as_tensorflow(bert_state()).items():
            name = re.sub(r"layer_(\d+)", r"layer_._\1", name)
            name = name.replace("word_embeddings", "word_embeddings/weight")
            name = re.sub(r"((position|token_type)_embeddings)$", r"\1/embeddings", name)
            file[f"{name.partition('/')[0]}/tf_bert_for_pre_training/{name}:0"] = tensor
    np.testing.assert_array_equal(outputs(from_pretrained(tmp_path)), outputs(models["bert"]))


def as_mesh_tensorflow(state):
    found = {}
    for name, tensor in state.items():
        keeps = "layer_norm" in name or name == "shared.weight"
        name = re.sub(r"\.(block|layer)\.(\d+)", lambda m: f".{m[1]}_{int(m[2]):03d}", name)
        name = re.sub(r"layer_norm\.weight", "layer_norm.scale", name)
        name = re.sub(r"\.(q|k|v|o|relative_attention_bias)\.weight", r".\1", name)
        name = name.replace("shared.weight", "shared.embedding").replace("lm_head.weight", "decoder.logits.kernel")
        found[name.replace(".weight", ".kernel").replace(".", "/")] = tensor if keeps else tensor.T
    return found


@pytest.mark.parametrize("kind", ["t5", "t5_v1_1"])
def test_mesh_tensorflow(kind, tmp_path, models):
    tensors = as_mesh_tensorflow(state_of(kind))
    tensors |= {f"{name}_slot_vr": np.zeros(2, "float32") for name in tensors}
    save_tensorflow(tmp_path / "model.ckpt-1000000", tensors)
    np.testing.assert_array_equal(outputs(from_pretrained(tmp_path, max_distance=20)), outputs(models[kind]))


def as_t5x(state):
    words = {"q": "query", "k": "key", "v": "value", "o": "out"}
    table = r"(\w+)\.layers_0\.SelfAttention\.relative_attention_bias\.weight"
    found = {}
    for name, tensor in state.items():
        keeps = "layer_norm" in name or name == "shared.weight"
        parts = ["attention", "mlp"] if name.startswith("encoder") else ["self_attention", "cross_attention", "mlp"]
        # Norms are called after the part that follows them.
        name = re.sub(
            r"block\.(\d+)\.layer\.(\d)\.layer_norm\.weight",
            lambda m, parts=parts: f"layers_{m[1]}.pre_{parts[int(m[2])]}_layer_norm.scale",
            name,
        )
        name = re.sub(r"block\.(\d+)\.layer\.\d\.", r"layers_\1.", name)
        name = re.sub(table, r"\1.relpos_bias.rel_embedding", name)
        for theirs, part in (("SelfAttention", parts[0]), ("EncDecAttention", "encoder_decoder_attention")):
            name = re.sub(rf"{theirs}\.(\w)\.weight", lambda m, part=part: f"{part}.{words[m[1]]}.kernel", name)
        name = re.sub(r"DenseReluDense\.(\w+)\.weight", r"mlp.\1.kernel", name)
        name = re.sub(r"(\w+)\.final_layer_norm\.weight", r"\1.\1_norm.scale", name)
        name = name.replace("shared.weight", "token_embedder.embedding")
        name = name.replace("lm_head.weight", "decoder.logits_dense.kernel")
        found[name.replace(".", "/")] = tensor if keeps else tensor.T
    return found


@pytest.mark.parametrize("kind", ["t5", "t5_v1_1"])
def test_t5x(kind, tmp_path, models):
    msgpack = pytest.importorskip("msgpack")
    from tests.interop.test_containers import flax_array

    tree = {"optimizer": {"state": {"step": 3}}}
    for name, tensor in as_t5x(state_of(kind)).items():
        at = tree
        *path, last = ["optimizer", "target", *name.split("/")]
        for part in path:
            at = at.setdefault(part, {})
        at[last] = flax_array(msgpack, np.ascontiguousarray(tensor))
    (tmp_path / "checkpoint").write_bytes(msgpack.packb(tree))
    np.testing.assert_array_equal(outputs(from_pretrained(tmp_path, max_distance=20)), outputs(models[kind]))


def test_old_names_of_norms_and_no_prefix(tmp_path, models):
    state = {name.removeprefix("bert."): tensor for name, tensor in bert_state().items()}
    state = {re.sub(r"LayerNorm\.weight", "LayerNorm.gamma", name): tensor for name, tensor in state.items()}
    state = {re.sub(r"LayerNorm\.bias", "LayerNorm.beta", name): tensor for name, tensor in state.items()}
    np.testing.assert_array_equal(outputs(from_pretrained(write(tmp_path, "bert", state))), outputs(models["bert"]))


def test_t5_of_transformers_5(tmp_path, models):
    """It writes T5 1.1 as tied, and says beside it that the output is not scaled."""
    state = state_of("t5_v1_1")
    del state["lm_head.weight"]
    model = from_pretrained(write(tmp_path, "t5_v1_1", state, tie_word_embeddings=True, scale_decoder_outputs=False))
    np.testing.assert_array_equal(array(model.output_projection.kernel), state["shared.weight"].T)


def test_without_pooler(tmp_path):
    model = from_pretrained(write(tmp_path, "bert", bert_state(pooler=False)))
    assert model.pooler is None


# What must be refused, in one line


@pytest.mark.parametrize("kind, changes, name, received", [
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type", "'relative_key' in "),
    ("bert", {"is_decoder": True}, "is_decoder", "True in "),
    ("bert", {"rotary_base": 10_000}, "ignore=['rotary_base']", "rotary_base=10000 in "),
    ("bert", {"hidden_act": "mish"}, "hidden_act", "'mish' in "),
    ("bert", {"model_type": "gptj"}, "model_type", "'gptj' in "),
    ("bert", {"vocab_size": 31}, "nothing was copied", "embeddings.word_embeddings.weight (30, 8), not (31, 8)"),
    ("bert", {"num_hidden_layers": 1}, "nothing was copied", "left over: encoder.layer.1.attention"),
    ("bert", {"num_hidden_layers": 3}, "nothing was copied", "missing: encoder.layer.2.attention"),
    ("t5", {"decoder_start_token_id": 1}, "decoder_start_token_id", "1 in "),
    ("t5", {"tie_word_embeddings": False, "scale_decoder_outputs": True}, "scale_decoder_outputs", "True in "),
    ("t5_v1_1", {"feed_forward_proj": "relu"}, "", "missing: encoder.block.0.layer.1.DenseReluDense.wi.weight"),
])  # fmt: skip
def test_refused_configurations(kind, changes, name, received, tmp_path):
    with refused(name, received) as error:
        from_pretrained(write(tmp_path, kind, **changes))
    assert "\n" not in str(error.value)


HUGE = [
    ("bert", "vocab_size", 10**9), ("bert", "hidden_size", 10**6), ("bert", "intermediate_size", 10**9),
    ("bert", "max_position_embeddings", 10**10), ("bert", "num_hidden_layers", 10**9),
    ("bert", "type_vocab_size", 10**9), ("electra", "embedding_size", 10**9),
    ("roberta", "max_position_embeddings", 10**10),
    ("t5", "vocab_size", 10**9),
    ("t5", "d_model", 10**6), ("t5", "d_ff", 10**9), ("t5", "d_kv", 10**9), ("t5", "num_layers", 10**9),
    ("t5", "num_decoder_layers", 10**9), ("t5", "num_heads", 10**6), ("t5", "relative_attention_num_buckets", 10**9),
]  # fmt: skip


@pytest.mark.parametrize("kind, key, size", HUGE)
def test_huge_sizes_are_refused_before_memory_is_taken(kind, key, size, tmp_path):
    with refused("nothing was copied"):
        from_pretrained(write(tmp_path, kind, **{key: size}))


def test_a_layer_of_a_huge_number(tmp_path):
    """Both with a configuration and where layers are counted by the tensors."""
    state = bert_state()
    state["bert.encoder.layer.999999999.attention.self.query.weight"] = np.zeros((WIDTH, WIDTH), "float32")
    with pytest.raises(ValueError, match="missing: some of 1000000000 layers"):
        from_pretrained(write(tmp_path, "bert", state, num_hidden_layers=10**9))
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match="The checkpoint lacks layers. Received: 3 like"):
        from_pretrained(tmp_path)


WRONG = [
    ("bert", "hidden_act", [5, ["gelu"]]), ("bert", "layer_norm_eps", ["x", [1], float("nan"), -1]),
    ("bert", "pad_token_id", [10**30, -1, 30, 0.0]), ("bert", "vocab_size", ["30", 30.0, True, [30], None, 0]),
    ("bert", "num_attention_heads", [0, "2"]), ("bert", "hidden_dropout_prob", [1, "x", -0.1]),
    ("bert", "initializer_range", [float("inf")]), ("roberta", "pad_token_id", [-1, 30]),
    ("electra", "embedding_size", ["6", 0]), ("t5", "feed_forward_proj", [1, ["relu"]]),
    ("t5", "layer_norm_epsilon", ["x"]), ("t5", "tie_word_embeddings", ["yes"]),
    ("t5", "num_decoder_layers", ["1", 0]), ("t5", "relative_attention_max_distance", [0, 10**30]),
]  # fmt: skip


@pytest.mark.parametrize("kind, key, values", WRONG)
def test_values_of_another_kind(kind, key, values, tmp_path):
    """One line, which names the key and the file."""
    write(tmp_path, kind)
    for value in values:
        (tmp_path / "config.json").write_text(json.dumps(CONFIGS[kind] | {key: value}))
        with pytest.raises(ValueError, match=rf"`?{key}`?.* Received: ") as error:
            from_pretrained(tmp_path)
        assert "\n" not in str(error.value) and "config.json" in str(error.value)


@pytest.mark.parametrize("kind, keys", [
    ("bert", ["hidden_act", "layer_norm_eps", "pad_token_id", "initializer_range", "is_decoder"]),
    ("t5", ["layer_norm_epsilon", "relative_attention_max_distance", "tie_word_embeddings"]),
])  # fmt: skip
def test_null_is_as_absent(kind, keys, tmp_path):
    keys = [*keys, "bad_words_ids", "architectures", "torch_dtype", "decoder_start_token_id"]
    write(tmp_path, kind)
    found = []
    for nulls in (dict.fromkeys(keys), {}):
        config = {key: value for key, value in CONFIGS[kind].items() if key not in keys} | nulls
        (tmp_path / "config.json").write_text(json.dumps(config))
        found.append(re.sub(r"_\d+'", "'", str(from_pretrained(tmp_path).get_config())))
    assert found[0] == found[1]


@pytest.mark.parametrize("kept", ["encoder", "decoder", "lm_head"])
def test_t5_whose_embedding_has_another_name(kept, tmp_path, models):
    name = "lm_head.weight" if kept == "lm_head" else f"{kept}.embed_tokens.weight"
    state = state_of("t5")
    state[name] = state.pop("shared.weight")
    np.testing.assert_array_equal(outputs(from_pretrained(write(tmp_path, "t5", state))), outputs(models["t5"]))


def test_t5_of_two_embeddings(tmp_path):
    state = state_of("t5")
    state["decoder.embed_tokens.weight"] = state["shared.weight"] + 1
    with refused("embedding", "decoder.embed_tokens.weight other than"):
        from_pretrained(write(tmp_path, "t5", state))


def test_t5_without_decoder_is_an_encoder_unless_it_says_otherwise(tmp_path):
    state = {name: x for name, x in state_of("t5").items() if not name.startswith("decoder")}
    assert isinstance(from_pretrained(write(tmp_path, "t5", state)), TransformerEncoder)
    with refused("nothing was copied", "missing: decoder.block.0.layer.0.SelfAttention.q.weight"):
        from_pretrained(write(tmp_path, "t5", state, architectures=["T5ForConditionalGeneration"]))


@pytest.mark.parametrize("read", [from_pretrained, tokenizer_of])
def test_names_of_the_hub(read):
    with refused("hf download", "path='bert-base-uncased'", FileNotFoundError):
        read("bert-base-uncased")


def test_unknown_keys_may_be_passed_over(tmp_path, models):
    model = from_pretrained(write(tmp_path, "bert", rotary_base=1), ignore=["rotary_base"])
    np.testing.assert_array_equal(outputs(model), outputs(models["bert"]))


def test_a_missing_and_an_unknown_tensor(tmp_path):
    state = bert_state()
    state["bert.adapter.weight"] = state.pop("bert.encoder.layer.1.output.dense.bias")
    with refused("nothing was copied", "missing: encoder.layer.1.output.dense.bias; left over: adapter.weight"):
        from_pretrained(write(tmp_path, "bert", state))


def test_an_output_layer_of_its_own(tmp_path):
    state = bert_state()
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"].copy()
    from_pretrained(write(tmp_path, "bert", state), head="masked_lm")  # the same once more
    state["cls.predictions.decoder.weight"][0] += 1
    with refused("embedding", "another cls.predictions"):
        from_pretrained(write(tmp_path, "bert", state), head="masked_lm")


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_configuration(text, tmp_path):
    write(tmp_path, "bert")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"The configuration .*Received: .*config.json"):
        from_pretrained(tmp_path)


def test_another_head(folders):
    with refused("head", "'replaced_token'"):
        from_pretrained(folders["bert"], head="replaced_token")
    with refused("head", "'masked_lm' for t5"):
        from_pretrained(folders["t5"], head="masked_lm")
