"""Weight names by format; all are translated to Hugging Face's."""

import re

import numpy as np

from keras_headattn.interop._copying import Names

_ENCODER = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "embedding_projection": "embeddings_project",
    "block_{i}/attention/{p}": "encoder.layer.{i}.attention.self.{p}",
    "block_{i}/attention/attention_output": "encoder.layer.{i}.attention.output.dense",
    "block_{i}/attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
    "block_{i}/feed_forward/inner": "encoder.layer.{i}.intermediate.dense",
    "block_{i}/feed_forward/outer": "encoder.layer.{i}.output.dense",
    "block_{i}/feed_forward_norm": "encoder.layer.{i}.output.LayerNorm",
    "pooler": "pooler.dense",
}
# Task heads; ignored unless `head=` asks for one.
_HEADS = (r"(cls|lm_head|classifier|qa_outputs|discriminator_predictions|generator(_predictions|_lm_head)?)\..*",)
_HEADS += (r"(.*\.)?(position_ids|token_type_ids)", r"pooler\..*", "global_step", r"sequence_summary\..*")
BERT = Names(_ENCODER, unused=_HEADS)
MODERNBERT = Names(
    {
        "token_embedding": "embeddings.tok_embeddings",
        "embedding_norm": "embeddings.norm",
        "block_{i}/attention/{p}": "layers.{i}.attn.{p}",
        "block_{i}/attention/attention_output": "layers.{i}.attn.Wo",
        "block_{i}/attention_norm": "layers.{i}.attn_norm",
        "block_{i}/feed_forward/inner": "layers.{i}.mlp.inner",
        "block_{i}/feed_forward/gate": "layers.{i}.mlp.gate",
        "block_{i}/feed_forward/outer": "layers.{i}.mlp.Wo",
        "block_{i}/feed_forward_norm": "layers.{i}.mlp_norm",
        "final_norm": "final_norm",
    },
    unused=(r"(head|decoder|classifier)\..*",),
)
# Names of heads by kind of checkpoint.
HEADS = {
    ("bert", "MaskedLM"): {
        "hidden": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "output_bias": "cls.predictions.bias",
    },
    ("roberta", "MaskedLM"): {"hidden": "lm_head.dense", "norm": "lm_head.layer_norm", "output_bias": "lm_head.bias"},
    ("electra", "MaskedLM"): {
        "hidden": "generator_predictions.dense",
        "norm": "generator_predictions.LayerNorm",
        "output_bias": "generator_lm_head.bias",
    },
    ("electra", "ReplacedTokenDetector"): {
        "hidden": "discriminator_predictions.dense",
        "output_projection": "discriminator_predictions.dense_prediction",
    },
    ("bert", "EncoderClassifier"): {"output_projection": "classifier"},
    ("roberta", "EncoderClassifier"): {"hidden": "classifier.dense", "output_projection": "classifier.out_proj"},
    ("electra", "EncoderClassifier"): {"hidden": "classifier.dense", "output_projection": "classifier.out_proj"},
    ("modernbert", "MaskedLM"): {"hidden": "head.dense", "norm": "head.norm", "output_bias": "decoder.bias"},
    **{
        ("modernbert", head): {"hidden": "head.dense", "norm": "head.norm", "output_projection": "classifier"}
        for head in ("EncoderClassifier", "SpanAnswerer", "TokenClassifier")
    },
    **{(kind, "SpanAnswerer"): {"output_projection": "qa_outputs"} for kind in ("bert", "roberta", "electra")},
    **{(kind, "TokenClassifier"): {"output_projection": "classifier"} for kind in ("bert", "roberta", "electra")},
}

_SELF, _CROSS = "{side}.block.{i}.layer.0.SelfAttention", "decoder.block.{i}.layer.1.EncDecAttention"
T5 = Names(
    {
        "target_embedding": "shared",
        "output_projection": "lm_head",
        "{side}_{i}/attention/{side}_relative_positions": _SELF + ".relative_attention_bias",
        "{side}_{i}/attention/{p}": _SELF + ".{p[0]}",
        "{side}_{i}/attention/attention_output": _SELF + ".o",
        "{side}_{i}/attention_norm": "{side}.block.{i}.layer.0.layer_norm",
        "decoder_{i}/cross_attention/{p}": _CROSS + ".{p[0]}",
        "decoder_{i}/cross_attention/attention_output": _CROSS + ".o",
        "decoder_{i}/cross_attention_norm": "decoder.block.{i}.layer.1.layer_norm",
        "encoder_{i}/feed_forward/inner": "encoder.block.{i}.layer.1.DenseReluDense.wi",
        "encoder_{i}/feed_forward/gate": "encoder.block.{i}.layer.1.DenseReluDense.wi_1",
        "encoder_{i}/feed_forward/outer": "encoder.block.{i}.layer.1.DenseReluDense.wo",
        "encoder_{i}/feed_forward_norm": "encoder.block.{i}.layer.1.layer_norm",
        "decoder_{i}/feed_forward/inner": "decoder.block.{i}.layer.2.DenseReluDense.wi",
        "decoder_{i}/feed_forward/gate": "decoder.block.{i}.layer.2.DenseReluDense.wi_1",
        "decoder_{i}/feed_forward/outer": "decoder.block.{i}.layer.2.DenseReluDense.wo",
        "decoder_{i}/feed_forward_norm": "decoder.block.{i}.layer.2.layer_norm",
        "{side}_norm": "{side}.final_layer_norm",
    },
    unused=(r"(encoder|decoder)\.embed_tokens\.weight", r".*EncDecAttention\.relative_attention_bias\.weight"),
)
# T5 1.1 has two inner layers; the first is activated.
T5_GATED = Names({ours: theirs + "_0" * ours.endswith("/inner") for ours, theirs in T5.table.items()}, unused=T5.unused)

# The encoder as a `TransformerEncoder`.
_OWN = {"target_embedding": "embedding", "{side}_norm": "norm"}
_OWN["{side}_{i}/attention/{side}_relative_positions"] = "block_{i}/attention/relative_positions"


def _of_encoder(names):
    table = {
        _OWN.get(ours, re.sub("^({side}|encoder)_{i}/", "block_{i}/", ours)): theirs.replace("{side}", "encoder")
        for ours, theirs in names.table.items()
        if not ours.startswith(("decoder", "output"))
    }
    return Names(table, unused=names.unused)


T5_ENCODER, T5_ENCODER_GATED = _of_encoder(T5), _of_encoder(T5_GATED)

_MARIAN_BLOCK = "model.{side}.layers.{i}"
MARIAN = Names(
    {
        "target_embedding": "model.shared",
        "source_embedding": "model.encoder.embed_tokens",
        "output_projection/bias": "final_logits_bias",
        "output_projection": "lm_head",
        "output_bias": "final_logits_bias",
        "source_positions": "model.encoder.embed_positions",
        "target_positions": "model.decoder.embed_positions",
        "{side}_{i}/attention/{p}": _MARIAN_BLOCK + ".self_attn.{p[0]}_proj",
        "{side}_{i}/attention/attention_output": _MARIAN_BLOCK + ".self_attn.out_proj",
        "{side}_{i}/attention_norm": _MARIAN_BLOCK + ".self_attn_layer_norm",
        "{side}_{i}/cross_attention/{p}": _MARIAN_BLOCK + ".encoder_attn.{p[0]}_proj",
        "{side}_{i}/cross_attention/attention_output": _MARIAN_BLOCK + ".encoder_attn.out_proj",
        "{side}_{i}/cross_attention_norm": _MARIAN_BLOCK + ".encoder_attn_layer_norm",
        "{side}_{i}/feed_forward/inner": _MARIAN_BLOCK + ".fc1",
        "{side}_{i}/feed_forward/outer": _MARIAN_BLOCK + ".fc2",
        "{side}_{i}/feed_forward_norm": _MARIAN_BLOCK + ".final_layer_norm",
        "{side}_norm": "model.{side}.layer_norm",
    },
    # Sinusoids, and the shared embedding's other names.
    unused=(r"model\.\w+\.embed_positions\.weights?", r"model\.\w+\.embed_tokens\.weight", r"lm_head\.weight"),
)

# Decoder-only language models, without the prefix of the whole, and with projections split (`_causal.split`).
GPT2 = Names(
    {
        "token_embedding": "wte",
        "position_embedding": "wpe",
        "block_{i}/attention_norm": "h.{i}.ln_1",
        "block_{i}/attention/{p}": "h.{i}.attn.{p}",
        "block_{i}/attention/attention_output": "h.{i}.attn.c_proj",
        "block_{i}/feed_forward_norm": "h.{i}.ln_2",
        "block_{i}/feed_forward/inner": "h.{i}.mlp.c_fc",
        "block_{i}/feed_forward/outer": "h.{i}.mlp.c_proj",
        "final_norm": "ln_f",
        "output_projection": "lm_head",
    },
    unused=(r"h\.\d+\.attn\.(masked_)?bias",),
)
GPT_NEOX = Names(
    {
        "token_embedding": "embed_in",
        "block_{i}/attention_norm": "layers.{i}.input_layernorm",
        "block_{i}/attention/{p}": "layers.{i}.attention.{p}",
        "block_{i}/attention/attention_output": "layers.{i}.attention.dense",
        "block_{i}/feed_forward_norm": "layers.{i}.post_attention_layernorm",
        "block_{i}/feed_forward/inner": "layers.{i}.mlp.dense_h_to_4h",
        "block_{i}/feed_forward/outer": "layers.{i}.mlp.dense_4h_to_h",
        "final_norm": "final_layer_norm",
        "output_projection": "embed_out",
    },
    unused=(r"layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",),
)
LLAMA = Names(
    {
        "token_embedding": "embed_tokens",
        "block_{i}/attention_norm": "layers.{i}.input_layernorm",
        "block_{i}/attention/{p}": "layers.{i}.self_attn.{p[0]}_proj",
        "block_{i}/attention/attention_output": "layers.{i}.self_attn.o_proj",
        "block_{i}/attention/query_norm_scale": "layers.{i}.self_attn.q_norm.weight",
        "block_{i}/attention/key_norm_scale": "layers.{i}.self_attn.k_norm.weight",
        "block_{i}/feed_forward_norm": "layers.{i}.post_attention_layernorm",
        "block_{i}/feed_forward/inner": "layers.{i}.mlp.gate_proj",
        "block_{i}/feed_forward/gate": "layers.{i}.mlp.up_proj",
        "block_{i}/feed_forward/outer": "layers.{i}.mlp.down_proj",
        "final_norm": "norm",
        "output_projection": "lm_head",
    },
    unused=(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
)
GEMMA = Names(
    {
        **LLAMA.table,
        "block_{i}/attention_output_norm": "layers.{i}.post_attention_layernorm",
        "block_{i}/feed_forward_norm": "layers.{i}.pre_feedforward_layernorm",
        "block_{i}/feed_forward_output_norm": "layers.{i}.post_feedforward_layernorm",
    },
    unused=LLAMA.unused,
)

# OpenNMT-tf 2: paths of attributes, as TensorFlow 2 writes them.
OPENNMT = Names(
    {
        "target_embedding/embeddings": "model/examples_inputter/labels_inputter/embedding",
        "source_embedding/embeddings": "model/examples_inputter/features_inputter/embedding",
        "output_projection": "model/decoder/output_layer",
        "output_bias": "model/decoder/output_layer/bias",
        **{
            f"{block}/{ours}": f"{theirs}/{part}"
            for block, theirs, name in (
                ("{side}_{i}/attention", "model/{side}/layers/{i}/self_attention", "self_attention"),
                ("decoder_{i}/cross_attention", "model/decoder/layers/{i}/attention/0", "attention"),
            )
            for ours, part in (
                ("query", "layer/linear_queries"),
                ("key", "layer/linear_keys"),
                ("value", "layer/linear_values"),
                ("attention_output", "layer/linear_output"),
            )
        },
        "{side}_{i}/attention_norm": "model/{side}/layers/{i}/self_attention/input_layer_norm",
        "decoder_{i}/cross_attention_norm": "model/decoder/layers/{i}/attention/0/input_layer_norm",
        "{side}_{i}/feed_forward/inner": "model/{side}/layers/{i}/ffn/layer/inner",
        "{side}_{i}/feed_forward/outer": "model/{side}/layers/{i}/ffn/layer/outer",
        "{side}_{i}/feed_forward_norm": "model/{side}/layers/{i}/ffn/input_layer_norm",
        "{side}_norm": "model/{side}/layer_norm",
    },
    kernels="dense",
    unused=(r"optimizer/.*", r".*\.OPTIMIZER_SLOT/.*", "save_counter.*"),
)

# KerasHub's backbones; kernels have this library's axes.
KERAS_HUB = Names(
    {
        "token_embedding": "token_embedding",
        "position_embedding": "position_embedding",
        "segment_embedding": "segment_embedding",
        "embedding_norm": "embeddings_layer_norm",
        "embedding_projection": "embeddings_projection",
        "block_{i}/attention/{p}": "transformer_layer_{i}/self_attention_layer/{p}",
        "block_{i}/attention/attention_output": "transformer_layer_{i}/self_attention_layer/attention_output",
        "block_{i}/attention_norm": "transformer_layer_{i}/self_attention_layer_norm",
        "block_{i}/feed_forward/inner": "transformer_layer_{i}/feedforward_intermediate_dense",
        "block_{i}/feed_forward/outer": "transformer_layer_{i}/feedforward_output_dense",
        "block_{i}/feed_forward_norm": "transformer_layer_{i}/feedforward_layer_norm",
        "pooler": "pooled_dense",
    },
    kernels="heads",
    unused=("pooled_dense/.*",),
)

# Keras's layers; sublayers have this library's names.
STOCK = Names({name: name for name in ("{p}", "gate", "attention_output")}, kernels="heads")

# t5x to Hugging Face's names.
T5X = Names(
    {
        "token_embedder/embedding": "shared.weight",
        "decoder/logits_dense/kernel": "lm_head.weight",
        "{side}/{side}_norm/scale": "{side}.final_layer_norm.weight",
        "{side}/relpos_bias/rel_embedding": "{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "{side}/layers_{i}/{a}/{p}/kernel": _SELF + ".{p[0]}.weight",
        "{side}/layers_{i}/{a}/out/kernel": _SELF + ".o.weight",
        "{side}/layers_{i}/pre_{a}_layer_norm/scale": "{side}.block.{i}.layer.0.layer_norm.weight",
        "decoder/layers_{i}/encoder_decoder_attention/{p}/kernel": _CROSS + ".{p[0]}.weight",
        "decoder/layers_{i}/encoder_decoder_attention/out/kernel": _CROSS + ".o.weight",
        "decoder/layers_{i}/pre_cross_attention_layer_norm/scale": "decoder.block.{i}.layer.1.layer_norm.weight",
        "encoder/layers_{i}/mlp/{w}/kernel": "encoder.block.{i}.layer.1.DenseReluDense.{w}.weight",
        "encoder/layers_{i}/pre_mlp_layer_norm/scale": "encoder.block.{i}.layer.1.layer_norm.weight",
        "decoder/layers_{i}/mlp/{w}/kernel": "decoder.block.{i}.layer.2.DenseReluDense.{w}.weight",
        "decoder/layers_{i}/pre_mlp_layer_norm/scale": "decoder.block.{i}.layer.2.layer_norm.weight",
    },
    kernels="heads",
)

# Replacements that turn TensorFlow's names of BERT, ELECTRA and T5 into Hugging Face's with `/` for `.`.
TENSORFLOW = (
    (r"(^|/)(layer|block)_(?:\._)?0*(\d+)", r"\1\2/\3"),
    (r"/(kernel|gamma|scale)$", "/weight"),
    (r"/beta$", "/bias"),
    (r"(embeddings/(?:word|position|token_type)_embeddings)$", r"\1/weight"),
    (r"_embeddings/embeddings$", "_embeddings/weight"),
    (r"relative_attention_bias(/embeddings)?$", "relative_attention_bias/weight"),
    (r"/(q|k|v|o)$", r"/\1/weight"),
    (r"^shared/(shared/)?(embedding|weight)$", "shared/weight"),
    (r"^generator_predictions/output_bias$", "generator_lm_head/bias"),
    (r"^discriminator_predictions/dense_1/", "discriminator_predictions/dense_prediction/"),
    (r"output_bias$", "bias"),
    (r"output_weights$", "weight"),
    (r"(en|de)coder/rms_norm/weight$", r"\1coder/final_layer_norm/weight"),
    (r"^decoder/logits/weight$", "lm_head/weight"),
)


def of_tensorflow(tensors):
    """Renames tensors of BERT, ELECTRA or T5 in TensorFlow 1 or `tf_model.h5` to PyTorch's names and layout."""
    result = {}
    for name, array in tensors.items():
        if re.search(r"(adam_[mv]|_slot_\w+|/Adafactor|/Adam(_1)?|^global_step|_power)$", name):
            continue
        theirs = name
        for pattern, replacement in TENSORFLOW:
            theirs = re.sub(pattern, replacement, theirs)
        is_kernel = name.endswith("/kernel") or re.search(r"/(q|k|v|o)$", name)
        if array.ndim == 2 and (is_kernel or name.endswith("relative_attention_bias")):
            array = array.T
        result[theirs.replace("/", ".")] = array
    return result


def of_generator(tensors):
    """Returns the generator's tensors of Google's checkpoint, named as in its own file."""
    shared = {name: x for name, x in tensors.items() if name.startswith(("electra.embeddings.", "generator_"))}
    body = {name: x for name, x in tensors.items() if name.startswith("generator.")}
    return {name.removeprefix("electra.").removeprefix("generator."): x for name, x in (shared | body).items()}


def of_t5x(tensors):
    """Renames tensors of t5x to PyTorch's names and layout, without the optimizer's."""
    result, unknown = {}, []
    for name, array in tensors.items():
        head, target, below = name.rpartition("target/")
        if not target or "state" in head:
            continue
        theirs = T5X.find(below)
        if theirs is None:
            unknown.append(name)
        else:
            result[theirs] = array.T if re.search("/(kernel|rel_embedding)$", name) else array
    if unknown or not result:
        raise ValueError(
            f"The checkpoint is not a T5 1.0 or 1.1 of t5x. Received: {', '.join(unknown[:4]) or 'no target/'}"
        )
    return {name: np.asarray(array) for name, array in result.items()}


def fold_segment(tensors, first):
    """Adds RoBERTa's only segment to the positions, and drops those before `first`."""
    tensors = dict(tensors)
    segment = tensors.pop("embeddings.token_type_embeddings.weight", None)
    table = tensors.get("embeddings.position_embeddings.weight")
    if table is not None and table.ndim == 2:
        table = table[first:].astype("float32")
        segment = 0.0 if segment is None else segment[:1].astype("float32")
        tensors["embeddings.position_embeddings.weight"] = table + segment
    return tensors


def exchange_padding(rows, pad_id):
    """Swaps the rows of padding and id 0."""
    rows = np.array(rows)
    rows[[0, pad_id]] = rows[[pad_id, 0]]
    return rows
