"""The same logits as two models of Hugging Face's transformers with the same weights.

Marian has post-norm blocks, M2M100 pre-norm blocks and the sinusoids of tensor2tensor.
"""

import warnings

import numpy as np
import pytest

from keras_headattn.layers import MultiHeadAttention
from keras_headattn.models import Transformer
from keras_headattn.positions import SinusoidalPositions
from tests.models.small import array, check_close

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 17, 16, 4, 2, 12
NAMES = {"self_attn": "attention", "encoder_attn": "cross_attention"}


@pytest.fixture(scope="module")
def libraries():
    """torch and transformers, whose imports may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torch
            import transformers
        except ImportError as error:
            pytest.skip(f"needs torch and transformers: {error}")
        yield torch, transformers


def their_model(libraries, name, activation):
    torch, transformers = libraries
    shape = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (
        ("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 24),
    )}  # fmt: skip
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY, decoder_vocab_size=VOCABULARY, d_model=WIDTH, activation_function=activation,
        max_position_embeddings=LENGTH, scale_embedding=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=2, **shape,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, {"Marian": "MarianMTModel", "M2M100": "M2M100ForConditionalGeneration"}[name])(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    return model.eval()


def set_their_positions(libraries, model, name):
    """Marian's wavelengths are others than ours; M2M100's are the same, but row 0 is for padding."""
    torch, _ = libraries
    table = torch.tensor(array(SinusoidalPositions()(np.zeros((1, LENGTH, WIDTH), "float32")))[0])
    for side in (model.model.encoder, model.model.decoder):
        if name == "Marian":
            side.embed_positions.weight.data = table
        else:
            sinusoids = side.embed_positions.get_embedding(LENGTH, WIDTH, padding_idx=None)
            side.embed_positions.weights = torch.cat([torch.zeros(1, WIDTH), sinusoids])


def move_weights(theirs, ours):
    state = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    ours.target_embedding.embeddings.assign(state["model.shared.weight"])
    for side, blocks, norm in zip(
        ("encoder", "decoder"), (ours.encoder_blocks, ours.decoder_blocks), (0, 1), strict=True
    ):
        if ours.norms:
            _move_norm(state, f"model.{side}.layer_norm", ours.norms[norm])
        for i, block in enumerate(blocks):
            prefix = f"model.{side}.layers.{i}"
            _move_norm(state, f"{prefix}.final_layer_norm", block.norms["feed_forward"])
            for their_name, layer in (("fc1", block.feed_forward.inner), ("fc2", block.feed_forward.outer)):
                layer.set_weights([state[f"{prefix}.{their_name}.weight"].T, state[f"{prefix}.{their_name}.bias"]])
            for their_name, name in NAMES.items():
                if hasattr(block, name):
                    _move_norm(state, f"{prefix}.{their_name}_layer_norm", block.norms[name])
                    _move_attention(state, f"{prefix}.{their_name}", getattr(block, name))


def _move_norm(state, name, layer):
    layer.set_weights([state[f"{name}.weight"], state[f"{name}.bias"]])


def _move_attention(state, name, layer):
    for letter, dense in (("q", layer.query_dense), ("k", layer.key_dense), ("v", layer.value_dense)):
        kernel, bias = state[f"{name}.{letter}_proj.weight"].T, state[f"{name}.{letter}_proj.bias"]
        dense.set_weights([kernel.reshape(dense.kernel.shape), bias.reshape(dense.bias.shape)])
    kernel = state[f"{name}.out_proj.weight"].T
    layer.output_dense.set_weights([kernel.reshape(layer.output_dense.kernel.shape), state[f"{name}.out_proj.bias"]])


@pytest.mark.parametrize("activation", ["relu", "swish"])
@pytest.mark.parametrize("name", ["Marian", "M2M100"])
def test_logits(libraries, name, activation):
    torch, _ = libraries
    theirs = their_model(libraries, name, activation)
    set_their_positions(libraries, theirs, name)
    ours = Transformer(
        VOCABULARY, None, LAYERS, hidden_dim=WIDTH, intermediate_dim=24, activation=activation,
        attention=MultiHeadAttention(HEADS, WIDTH // HEADS), normalize_first=name == "M2M100",
    )  # fmt: skip
    ours.build()
    move_weights(theirs, ours)
    rng = np.random.default_rng(0)
    source, target = (rng.integers(3, VOCABULARY, (2, length)) for length in (7, 5))
    source[0, 5:] = 0
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(source != 0).long(),
            decoder_input_ids=torch.tensor(target),
        ).logits
    assert np.ptp(expected.numpy()) > 1
    check_close(ours({"source": source, "target": target}), expected.numpy(), 1e-5)
