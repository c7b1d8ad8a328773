"""All causal heads at equal cost: one small language model each, with equal parameters and paired seeds.

    python -m recipes.sweep lm_heads_rates --train shakespeare.txt --seeds 0
    python -m recipes.sweep lm_heads --train shakespeare.txt --seeds 1 2 3 4 5
    python -m recipes.sweep lm_heads_time --train shakespeare.txt --seeds 1 2 3
    python -m recipes.sweep lm_heads_tasks --seeds 1 2 3

The model is nanoGPT's for a CPU. The width of the feed-forward layers makes up for what heads have more or less than
multi-head attention's: all models have 804,096 parameters or differ by less than 0.5 %. Weights of one name and shape
and the order of the data are equal for one seed, so that runs are paired. Columns are learning rates: nanoGPT's, and
the best of `lm_heads_rates` for multi-head attention. `lm_heads_time` trains slower heads for fewer steps. Heads have
their papers' settings where the layers' defaults are theirs; differential attention has two pairs of maps, whose values
are twice as wide.

Absent are re-attention, which lets later tokens through in training, and graph attention.
"""

from recipes.engine.tables import RELATIVE_TIME, Table
from recipes.lm.synthetic import TASKS

CONFIGS = {}


def row(attention, width=512, **arguments):
    """Returns the settings of a row: the attention, its arguments, and the width of feed-forward layers."""
    return dict(attention=attention, attention_arguments=arguments, model_arguments={"intermediate_dim": width})


ROWS = {
    "multi_head": row("multi_head"),
    "gate a head": row("multi_head", 510, use_gate="head"),
    "sinks": row("multi_head", use_sinks=True),
    "qk_norm": row("multi_head", qk_norm=True),
    "exclusive": row("multi_head", exclusive=True),
    "exclusive a head": row("multi_head", exclusive="head"),
    "value residual": row("multi_head", value_residual=True),
    "window of 16": row("multi_head", sliding_window=16),
    "grouped_query": row("grouped_query", 576, num_key_value_heads=2),
    "multi_head_explicit": row("multi_head_explicit", 576, num_components=2),
    "knocking_heads": row("knocking_heads", 500),
    "mixture_of_heads": row("mixture_of_heads", 509),
    "collaborative": row("collaborative", 510),
    "multi_token": row("multi_token", 511),
    "talking_heads": row("talking_heads"),
    "interacting": row("interacting"),
    "interleaved": row("interleaved"),
    "paired_heads": row("paired_heads"),
    "evolving": row("evolving"),
    "evolving without chain": row("evolving", alpha=0.0),
    "real_former": row("real_former"),
    "synthesizer": row("synthesizer", 536, max_length=80),
    "disentangled_mask": row("disentangled_mask", 507),
    "dynamically_composable": row("dynamically_composable", 468),
    "composable after softmax": row("dynamically_composable", 490, pre_compose=False),
    "differential": row("differential", 511, num_heads=2, key_dim=32, value_dim=64),
    "differential per token": row("differential", 543, num_heads=2, key_dim=32, value_dim=64, per_token=True),
    "luong": row("luong", key_dim=128, value_dim=128),
}
OF_TEXT = {"epochs": 2, "epoch_steps": 1_000}
RATE = {"learning_rate": 0.003}  # the best for multi-head attention
TEXT = {name: settings | OF_TEXT for name, settings in ROWS.items()}
NOT_ROTARY = ("collaborative", "synthesizer")
LEARNED = {name: settings | RATE for name, settings in TEXT.items()}
ROTARY = {
    name: settings | {"model_arguments": settings["model_arguments"] | {"positions": "rotary"}}
    for name, settings in LEARNED.items()
    if name not in NOT_ROTARY
}


def in_time(rows, **times):
    """Returns rows with fewer steps, by the time of a step relative to multi-head attention's."""
    return {name: rows[name] | {"epoch_steps": round(OF_TEXT["epoch_steps"] / time)} for name, time in times.items()}


def rates(*names):
    """Returns columns of learning rates."""
    return {name: {"learning_rate": float(name)} for name in names}


LOSS = "validation", "loss"
COMPARED = dict(config="nano_cpu", measures=(LOSS, ("training", "parameters"), RELATIVE_TIME), compared=LOSS)
TITLE = "Heads in a language model at equal parameters"
TABLES = {
    "lm_heads": Table(title=TITLE, rows=TEXT, columns=rates("0.001", "0.003"), **COMPARED),
    "lm_heads_rotary": Table(title=f"{TITLE}, rotary positions", rows=ROTARY, **COMPARED),
    "lm_heads_time": Table(
        title=f"{TITLE} and time", rows=in_time(LEARNED, multi_head=1, multi_token=1.42), **COMPARED
    ),
    "lm_heads_rotary_time": Table(
        title=f"{TITLE} and time, rotary positions", rows=in_time(ROTARY, multi_head=1, interleaved=1.42), **COMPARED
    ),
    "lm_heads_rates": Table(
        title=f"{TITLE}, by learning rate",
        config="nano_cpu",
        rows=TEXT,
        columns=rates("0.0005", "0.001", "0.002", "0.003", "0.004"),
        measures=(LOSS,),
    ),
    "lm_heads_tasks": Table(
        title="Heads on tasks made by code",
        rows={name: settings | {"config": "{column}"} for name, settings in ROWS.items()},
        columns={name: {} for name in TASKS},
        measures=(("test", "exact_match"),),
        compared=("test", "exact_match"),
    ),
}
