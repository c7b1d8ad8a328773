"""The same states and logits as Hugging Face's BERT, RoBERTa and ELECTRA with the same weights."""

import json
import struct

import numpy as np
import pytest

from keras_headattn.models import (
    Bert,
    EncoderClassifier,
    MaskedLM,
    ReplacedTokenDetector,
    SpanAnswerer,
    TokenClassifier,
)
from tests.models.encoders import move_dense, move_norm, move_weights, of_config
from tests.models.small import array, check_close

TOLERANCE = 1e-5
KINDS = ("bert", "roberta", "electra")
each_kind = pytest.mark.parametrize("kind", KINDS)


def encoder_of(config, state, **arguments):
    ours = Bert(**{**of_config(config), **arguments})
    ours.build()
    move_weights(state, ours, config["model_type"])
    return ours


def masked_lm_of(encoder, state, kind):
    model = MaskedLM(encoder, activation="gelu")
    model.build()
    names = {
        "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
        "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        "electra": ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
    }
    dense, norm, bias = names[kind]
    move_dense(state, dense, model.hidden)
    move_norm(state, norm, model.norm)
    model.output_bias.assign(state[bias])
    return model


def inputs_of(kind, ids, segments=None):
    return {"token_ids": ids} | ({} if segments is None or kind == "roberta" else {"segment_ids": segments})


def read_safetensors(path):
    """Floats of a file, as float32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    dtypes = {"F32": "float32", "F16": "float16"}
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], dtypes[entry["dtype"]])
        .reshape(entry["shape"])
        .astype("float32")
        for name, entry in header.items()
        if entry.get("dtype") in dtypes
    }


def read_folder(folder):
    """Configuration, weights and expected outputs."""
    config = json.loads((folder / "config.json").read_text())
    with np.load(folder / "expected.npz") as expected:
        return config, read_safetensors(folder / "model.safetensors"), dict(expected)


@each_kind
def test_tiny_checkpoint(shared_data, kind):
    """States of real tokens, what the pooler makes, and logits of the heads."""
    config, state, expected = read_folder(shared_data / "ckpt_hf_tiny" / kind)
    pooler = "pooled" in expected
    ours = encoder_of(config, state, pooler=pooler)
    inputs, real = inputs_of(kind, expected["ids"], expected.get("segments")), expected["mask"] == 1
    assert not real.all() and np.array_equal(real, expected["ids"] != config["pad_token_id"])
    outputs = ours(inputs)
    check_close(outputs["sequence_output"][real], expected["hidden"][real], TOLERANCE)
    if pooler:
        check_close(outputs["pooled_output"], expected["pooled"], TOLERANCE)
    if "mlm_logits" in expected:
        masked = masked_lm_of(ours, state, kind)
        check_close(array(masked(inputs))[real], expected["mlm_logits"][real], TOLERANCE)
        places = np.argsort(~real, kind="stable")[:, :3][:, ::-1]
        chosen = np.take_along_axis(expected["mlm_logits"], places[:, :, None], axis=1)
        check_close(masked({**inputs, "mask_positions": places.astype("int32")}), chosen, TOLERANCE)
    if "replaced_logits" in expected:
        detector = ReplacedTokenDetector(ours)
        detector.build()
        move_dense(state, "discriminator_predictions.dense", detector.hidden)
        move_dense(state, "discriminator_predictions.dense_prediction", detector.output_projection)
        check_close(array(detector(inputs))[real], expected["replaced_logits"][real], TOLERANCE)


def test_real_checkpoint(shared_data):
    """MiniLM, 6 blocks of width 384, with five sentences."""
    config, state, expected = read_folder(shared_data / "ckpt_minilm_l6_bert")
    ours, real = encoder_of(config, state), expected["mask"] == 1
    assert ours.count_params() == 22_713_216
    outputs = ours(expected["ids"])
    check_close(outputs["sequence_output"][real], expected["hidden"][real], TOLERANCE)
    check_close(outputs["pooled_output"], expected["pooled"], TOLERANCE)


def their_model(libraries, kind, head, **arguments):
    """With random weights, those of norms and biases too."""
    torch, transformers = libraries
    prefix = {"bert": "Bert", "roberta": "Roberta", "electra": "Electra"}[kind]
    config = getattr(transformers, f"{prefix}Config")(
        vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=20, type_vocab_size=1 if kind == "roberta" else 2, **arguments,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}For{head}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return model.eval(), config.to_dict(), state


def batch(kind):
    """Token ids, segments, and where real tokens are: the second ends with padding, the third begins with it."""
    rng, pad = np.random.default_rng(0), int(kind == "roberta")
    ids = rng.integers(2, 50, (3, 9))
    segments = np.tile(np.arange(9) > 4, (3, 1)).astype("int64")
    ids[1, 6:] = pad
    ids[2, :2] = pad
    return ids, segments, ids != pad


def theirs_of(libraries, model, kind, ids, segments, real, **arguments):
    torch, _ = libraries
    with torch.no_grad():
        return model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(real).long(),
            token_type_ids=torch.tensor(segments * (kind != "roberta")),
            **arguments,
        )


@each_kind
def test_masked_lm(libraries, kind):
    """And all that is below it."""
    embedding_size = {"embedding_size": 16} if kind == "electra" else {}
    theirs, config, state = their_model(libraries, kind, "MaskedLM", layer_norm_eps=1e-5, **embedding_size)
    ids, segments, real = batch(kind)
    expected = theirs_of(libraries, theirs, kind, ids, segments, real, output_hidden_states=True)
    ours = encoder_of(config, state, pooler=False)
    inputs = inputs_of(kind, ids, segments)
    check_close(ours(inputs)["sequence_output"][real], expected.hidden_states[-1].numpy()[real], TOLERANCE)
    check_close(array(masked_lm_of(ours, state, kind)(inputs))[real], expected.logits.numpy()[real], TOLERANCE)


@each_kind
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_classifier(libraries, kind, activation):
    theirs, config, state = their_model(libraries, kind, "SequenceClassification", hidden_act=activation, num_labels=3)
    ids, segments, real = batch(kind)
    activation = {"gelu_new": "gelu_tanh"}.get(activation, activation)
    model = EncoderClassifier(encoder_of(config, state, activation=activation), 3, kind)
    model.build()
    if model.hidden is not None:
        move_dense(state, "classifier.dense", model.hidden)
    move_dense(state, "classifier" if kind == "bert" else "classifier.out_proj", model.output_projection)
    real_first = real[:, 0]
    expected = theirs_of(libraries, theirs, kind, ids, segments, real).logits.numpy()
    check_close(array(model(inputs_of(kind, ids, segments)))[real_first], expected[real_first], TOLERANCE)


@each_kind
def test_span_answerer(libraries, kind):
    """Their logits of real tokens, of the first and of the last token of answers."""
    theirs, config, state = their_model(libraries, kind, "QuestionAnswering")
    ids, segments, real = batch(kind)
    model = SpanAnswerer(encoder_of(config, state, pooler=False))
    model.build()
    move_dense(state, "qa_outputs", model.output_projection)
    expected = theirs_of(libraries, theirs, kind, ids, segments, real)
    found = array(model(inputs_of(kind, ids, segments)))
    for logits, name in zip(np.moveaxis(found, 1, 0), ("start_logits", "end_logits"), strict=True):
        check_close(logits[real], getattr(expected, name).numpy()[real], TOLERANCE)


@each_kind
def test_token_classifier(libraries, kind):
    theirs, config, state = their_model(libraries, kind, "TokenClassification", num_labels=3)
    ids, segments, real = batch(kind)
    model = TokenClassifier(encoder_of(config, state, pooler=False), 3)
    model.build()
    move_dense(state, "classifier", model.output_projection)
    expected = theirs_of(libraries, theirs, kind, ids, segments, real).logits.numpy()
    check_close(array(model(inputs_of(kind, ids, segments)))[real], expected[real], TOLERANCE)
