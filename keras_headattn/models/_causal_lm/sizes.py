"""Named sizes of language models: functions that return the arguments of `CausalLM`."""

import math
from collections.abc import Callable
from typing import Any

from keras.layers import LayerNormalization, RMSNormalization

from keras_headattn.layers import FeedForward, GroupedQueryAttention
from keras_headattn.models._sizes import sized
from keras_headattn.positions import Llama3Positions, RotaryPositions


def _nano(num_layers, hidden_dim, num_heads, max_length, dropout):
    return dict(
        **sized(num_layers, hidden_dim, 4 * hidden_dim, num_heads),
        vocabulary_size=65,
        attention_arguments={"use_bias": False},
        norm=LayerNormalization(epsilon=1e-5, center=False),
        feed_forward=FeedForward(activation="gelu", use_bias=False),
        positions="learned",
        max_length=max_length,
        dropout=dropout,
    )


def _gpt2(num_layers, hidden_dim, num_heads):
    return dict(
        **sized(num_layers, hidden_dim, 4 * hidden_dim, num_heads),
        vocabulary_size=50_257,
        norm=LayerNormalization(epsilon=1e-5),
        positions="learned",
        max_length=1024,
    )


def _llama(vocabulary_size, sizes, key_value_heads, positions, epsilon=1e-5, **attention):
    attention_arguments = {"num_key_value_heads": key_value_heads, "use_bias": False, **attention}
    return dict(
        **sizes,
        vocabulary_size=vocabulary_size,
        attention="grouped_query",
        attention_arguments=attention_arguments,
        norm=RMSNormalization(epsilon=epsilon),
        feed_forward=FeedForward(activation="silu", gated=True, use_bias=False),
        relative_positions=positions,
    )


def _gemma3(num_layers, hidden_dim, intermediate_dim, num_heads):
    local, whole = (
        GroupedQueryAttention(
            num_heads,
            256,
            num_key_value_heads=1,
            use_bias=False,
            qk_norm=True,
            sliding_window=window,
            relative_positions=RotaryPositions(base),
        )
        for window, base in ((512, 10_000), (None, 1_000_000))
    )
    return dict(
        **sized(num_layers, hidden_dim, intermediate_dim, num_heads),
        vocabulary_size=262_144,
        attention=[local] * 5 + [whole],
        normalization="sandwich",
        feed_forward=FeedForward(activation="gelu_tanh", gated=True, use_bias=False),
        embedding_scale=math.sqrt(hidden_dim),
    )


def _pythia(num_layers, hidden_dim, num_heads):
    return dict(
        **sized(num_layers, hidden_dim, 4 * hidden_dim, num_heads),
        vocabulary_size=50_304,
        norm=LayerNormalization(epsilon=1e-5),
        normalization="parallel",
        activation="gelu",
        relative_positions=RotaryPositions(rotated_share=0.25),
        tie_output=False,
    )


CAUSAL_SIZES: dict[str, Callable[[], dict[str, Any]]] = {
    # nanoGPT's for tiny Shakespeare, on a CPU and on a GPU
    "nano_cpu": lambda: _nano(4, 128, 4, 64, 0.0),
    "nano": lambda: _nano(6, 384, 6, 256, 0.2),
    # Radford et al. 2019, "Language models are unsupervised multitask learners"
    "gpt2": lambda: _gpt2(12, 768, 12),
    "gpt2_medium": lambda: _gpt2(24, 1024, 16),
    "gpt2_large": lambda: _gpt2(36, 1280, 20),
    "gpt2_xl": lambda: _gpt2(48, 1600, 25),
    # Ben Allal et al. 2025, "SmolLM2: when Smol goes big"
    "smollm2_135m": lambda: _llama(49_152, sized(30, 576, 1536, 9), 3, RotaryPositions(100_000)),
    "smollm2_360m": lambda: _llama(49_152, sized(32, 960, 2560, 15), 5, RotaryPositions(100_000)),
    # Qwen team 2024, "Qwen2.5 technical report", and 2025, "Qwen3 technical report"
    "qwen2.5_0.5b": lambda: _llama(
        151_936, sized(24, 896, 4864, 14), 2, RotaryPositions(1_000_000), 1e-6, use_bias="inputs"
    ),
    "qwen3_0.6b": lambda: _llama(
        151_936, sized(28, 1024, 3072, 16), 8, RotaryPositions(1_000_000), 1e-6, key_dim=128, qk_norm=True
    ),
    # Meta's Llama 3.2 (no paper)
    "llama3.2_1b": lambda: _llama(
        128_256, sized(16, 2048, 8192, 32), 8, Llama3Positions(32, 8192, max_wavelength=500_000)
    ),
    # Gemma team 2025, "Gemma 3 technical report"
    "gemma3_270m": lambda: _gemma3(18, 640, 2048, 4),
    # Biderman et al. 2023, "Pythia: a suite for analyzing large language models"
    "pythia_70m": lambda: _pythia(6, 512, 8),
}
