"""Settings of a config.json as arguments of models."""

import pathlib
from typing import Any

from keras_headattn._files import Path, read_json
from keras_headattn._validation import check_number

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# Model types that are RoBERTa.
ROBERTAS = ("roberta", "xlm-roberta", "camembert")
# Keys that do not change what the model computes, or only the search (see `_generation`).
HARMLESS = """
    _name_or_path _num_labels architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward classif_dropout classifier_activation classifier_dropout cls_token_id
    custom_pipelines decoder_layerdrop decoder_start_token_id directionality diversity_penalty do_sample dtype
    early_stopping encoder_layerdrop encoder_no_repeat_ngram_size eos_token_id eos_token_ids
    exponential_decay_length_penalty extra_pos_embeddings finetuning_task force_bos_token_to_be_generated
    forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label init_std initializer_factor
    initializer_range is_encoder_decoder label2id language layerdrop length_penalty mask_token_id max_length
    min_length model_type n_positions no_repeat_ngram_size num_beam_groups num_beams num_hidden_layers num_labels
    num_return_sequences output_attentions output_hidden_states output_past output_scores pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type prefix problem_type
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate save_step sentence_transformers
    sep_token_id summary_activation summary_first_dropout summary_last_dropout summary_type summary_use_proj
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_word_embeddings tokenizer_class top_k top_p
    torch_dtype torchscript transformers_version typical_p use_bfloat16 use_cache xla_device
""".split()
# Keys that change what the model computes, and the value that is supported.
FIXED = dict(
    position_embedding_type="absolute",
    is_decoder=False,
    add_cross_attention=False,
    cross_attention_hidden_size=None,
    pruned_heads={},
    tie_encoder_decoder=False,
    scale_embedding=True,
    static_position_embeddings=True,
    normalize_before=False,
    normalize_embedding=False,
    add_final_layer_norm=False,
    add_bias_logits=False,
)


def read_config(path: Path) -> dict[str, Any]:
    """Reads the configuration of a checkpoint, a dictionary.

    Args:
        path: str or path of a folder with config.json, or of the file.

    Raises:
        FileNotFoundError, ValueError: if the file is missing or damaged.
    """
    path = pathlib.Path(path)
    path = path / "config.json" if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"There is no configuration. Received: {path}")
    return Config.load(path).values


class Config:
    """A config.json whose keys must all be known; one whose value is null is as absent."""

    def __init__(self, values, path):
        if not isinstance(values, dict):
            raise ValueError(f"The configuration must be a dictionary. Received: {path} with a {type(values).__name__}")
        self.values = {key: value for key, value in values.items() if value is not None}
        self.nulls = values.keys() - self.values.keys()
        self.path = path
        self._read = set(HARMLESS)

    @classmethod
    def load(cls, path):
        try:
            values = read_json(path)
        except (ValueError, OSError) as error:
            raise ValueError(f"The configuration cannot be read. Received: {error}") from error
        return cls(values, path)

    def __getitem__(self, key):
        if key not in self.values:
            raise ValueError(f"The configuration lacks {key!r}. Received: {self.path}")
        return self.get(key)

    def get(self, key, default=None):
        self._read.add(key)
        return self.values.get(key, default)

    def integer(self, key, default=None, least=0, most=None):
        """Returns an integer within bounds; the key is required if there is no `default`."""
        value = self[key] if default is None else self.get(key, default)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or value < least or most is not None and value > most:
            bounds = f"at least {least}" if most is None else f"{least} to {most}"
            raise ValueError(f"`{key}` must be an integer, {bounds}. Received: {key}={value!r} in {self.path}")
        return value

    def number(self, key, default, below=None):
        """Returns a finite number of at least 0."""
        try:
            return check_number(key, self.get(key, default), least=0, below=below)
        except ValueError as error:
            raise ValueError(f"{error} in {self.path}") from error

    def flag(self, key, default):
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ValueError(f"`{key}` must be true or false. Received: {key}={value!r} in {self.path}")
        return value

    def activation(self, key, default, prefix=""):
        """Returns Keras's name of an activation."""
        name = self.get(key, default)
        name = name.removeprefix(prefix) if isinstance(name, str) else name
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise ValueError(f"`{key}` must be one of {', '.join(ACTIVATIONS)}. Received: {name!r} in {self.path}")
        return ACTIVATIONS[name]

    def same(self, *keys):
        """Returns the common value of several keys, a positive integer."""
        values = [self.integer(key, least=1) for key in keys]
        if len(set(values)) > 1:
            received = ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
            raise ValueError(f"Encoder and decoder must have the same sizes. Received: {received} in {self.path}")
        return values[0]

    def check(self, ignore=(), known=()):
        """Refuses keys that have not been read and may change what the model computes.

        With `known`, further keys that do not, switches that are off do not either.
        """
        for key, value in self.values.items():
            if key in ignore or key in self._read or known and (key in known or value is False):
                continue
            if key not in FIXED:
                raise ValueError(
                    f"The configuration has the key {key!r}, which is not known here and may change what the model "
                    f"computes; `ignore=[{key!r}]` passes it over. Received: {key}={value!r} in {self.path}"
                )
            if value != FIXED[key] and not (FIXED[key] in (None, {}, False) and not value):
                raise ValueError(f"`{key}` must be {FIXED[key]!r} here. Received: {key}={value!r} in {self.path}")


def bert_arguments(config):
    """Returns the arguments of `Bert` for a BERT, RoBERTa or ELECTRA."""
    kind = config.get("model_type", "bert")
    is_roberta = kind in ROBERTAS
    size = config.integer("vocab_size", least=1)
    arguments = dict(
        vocabulary_size=size,
        hidden_dim=config.integer("hidden_size", least=1),
        intermediate_dim=config.integer("intermediate_size", least=1),
        num_layers=config.integer("num_hidden_layers", least=1),
        num_heads=config.integer("num_attention_heads", least=1),
        max_length=config.integer("max_position_embeddings", least=1),
        num_segments=config.integer("type_vocab_size", 2),
        embedding_dim=None,
        pad_id=config.integer("pad_token_id", 1 if is_roberta else 0, most=size - 1),
        activation=config.activation("hidden_act", "gelu"),
        norm_epsilon=config.number("layer_norm_eps", 1e-12),
        dropout=config.number("hidden_dropout_prob", 0.1, below=1),
        attention_dropout=config.number("attention_probs_dropout_prob", 0.1, below=1),
        initializer_range=config.number("initializer_range", 0.02),
    )
    if kind == "electra" and config.get("embedding_size") is not None:
        arguments["embedding_dim"] = config.integer("embedding_size", least=1)
    if is_roberta:
        if config.get("type_vocab_size", 1) != 1:
            raise ValueError(
                f"RoBERTa has one segment. Received: type_vocab_size={config['type_vocab_size']} in {config.path}"
            )
        # The first token's position is the one after padding's.
        places = config.integer("max_position_embeddings", least=arguments["pad_id"] + 2)
        arguments |= dict(max_length=places - arguments["pad_id"] - 1, num_segments=0, skip_padding=True)
    return arguments


def t5_arguments(config):
    """Returns the arguments of `T5` for a T5 or mT5."""
    kind = config.get("feed_forward_proj", "gated-gelu" if config["model_type"] == "mt5" else "relu")
    gated = isinstance(kind, str) and kind.startswith("gated-")
    # This name means GELU by tanh.
    activation = "gelu_tanh" if kind == "gated-gelu" else config.activation("feed_forward_proj", kind, "gated-")
    tied = config.flag("tie_word_embeddings", config["model_type"] == "t5")
    for derived in ("dense_act_fn", "is_gated_act"):
        config.get(derived)
    for key in ("pad_token_id", "decoder_start_token_id"):
        if config.get(key, 0) != 0:
            raise ValueError(f"`{key}` of T5 must be 0. Received: {key}={config[key]} in {config.path}")
    # transformers 5 ties all T5; this key marks version 1.0.
    scaled = config.flag("scale_decoder_outputs", tied) and config["model_type"] == "t5"
    if scaled and not tied:
        raise ValueError(
            f"`scale_decoder_outputs` must be False for a separate output layer. Received: True in {config.path}"
        )
    layers = config.integer("num_layers", least=1)
    decoder_layers = config.get("num_decoder_layers")
    return dict(
        vocabulary_size=config.integer("vocab_size", least=1),
        hidden_dim=config.integer("d_model", least=1),
        intermediate_dim=config.integer("d_ff", least=1),
        num_layers=layers,
        num_decoder_layers=layers if decoder_layers is None else config.integer("num_decoder_layers", least=1),
        num_heads=config.integer("num_heads", least=1),
        key_dim=config.integer("d_kv", least=1),
        activation=activation,
        gated=gated,
        tie_output=scaled,
        num_buckets=config.integer("relative_attention_num_buckets", 32, least=1),
        max_distance=config.integer("relative_attention_max_distance", 128, least=1, most=2**31 - 1),
        norm_epsilon=config.number("layer_norm_epsilon", 1e-6),
        dropout=config.number("dropout_rate", 0.1, below=1),
    )


def translator_arguments(config):
    """Returns the arguments of `Transformer` of a translator, without attention, norm and positions."""
    is_marian = config["model_type"] == "marian"
    shared = config.flag("share_encoder_decoder_embeddings", True)
    size = config.integer("vocab_size", least=1)
    target_size = size if config.get("decoder_vocab_size") is None else config.integer("decoder_vocab_size", least=1)
    if not shared and not is_marian:
        raise ValueError(
            f"Only a Marian has two vocabularies. Received: share_encoder_decoder_embeddings=False in {config.path}"
        )
    passed_over = ["max_position_embeddings"]
    if not is_marian:  # old files state what holds for all M2M100
        passed_over += ["normalize_before", "add_final_layer_norm", "static_position_embeddings"]
    for key in passed_over:
        config.get(key)
    if config["scale_embedding"] is not True:
        raise ValueError(
            f"`scale_embedding` must be True here. Received: {config['scale_embedding']!r} in {config.path}"
        )
    return dict(
        source_vocabulary_size=size,
        target_vocabulary_size=None if shared else target_size,
        num_layers=config.integer("encoder_layers", least=1),
        num_decoder_layers=config.integer("decoder_layers", least=1),
        hidden_dim=config.integer("d_model", least=1),
        intermediate_dim=config.same("encoder_ffn_dim", "decoder_ffn_dim"),
        num_heads=config.same("encoder_attention_heads", "decoder_attention_heads"),
        dropout=config.number("dropout", 0.1, below=1),
        activation_dropout=config.number("activation_dropout", 0.0, below=1),
        activation=config.activation("activation_function", "gelu"),
        normalization="post" if is_marian else "pre",
        output_bias=config["model_type"] != "m2m_100",
    )
