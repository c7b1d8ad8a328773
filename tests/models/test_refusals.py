"""What models refuse. Wrong switches and seeds are in `test_wrong_arguments.py`."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import decoding, layers, models
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.positions import LearnedPositions
from tests.models import electra, encoders, graphs, small
from tests.refusals import refusals, refused, values

IDS = np.ones((2, 5), "int32")
MULTI_HEAD = layers.MultiHeadAttention(2, 4)


# ---------------------------------------------------------------------------------------------- Transformers

transformer = functools.partial(models.Transformer, 10, num_layers=1, hidden_dim=16, intermediate_dim=8)


def decode(index):
    model, inputs = small.shared(), small.sentences()
    model.decode_step(inputs["target"][:, :1], model.init_cache(inputs["source"], 2), index)


test_transformer = refusals(
    *values(transformer, attention=("nothing", 3), decoder_attention=("nothing",), cross_attention=("nothing",)),
    (lambda: transformer(attention=keras.layers.Dense(3)), "`attention`", "<Dense"),
    (lambda: transformer(attention=layers.MultiHeadAttention.build), "`attention`", "function"),
    *values(transformer, seed=("a",), dropout=(1.5,), num_heads=(0,), num_layers=(0,), num_decoder_layers=(0,)),
    *values(transformer, hidden_dim=(0,), intermediate_dim=(0,), loss_chunk_size=(0,)),
    *(
        (
            functools.partial(transformer, hidden_dim=12, **{"attention": MULTI_HEAD, name: "multi_head"}),
            f"`{name}` as a layer",
            "num_heads=8 for a width of 12",
        )
        for name in ("attention", "decoder_attention", "cross_attention")
    ),
    *(
        (lambda own=own: transformer(attention=functools.partial(layers.MultiHeadAttention, **own)), name, received)
        for own, name, received in (
            ({"num_heads": 3}, "`num_heads`", "num_heads=3 for a width of 16"),
            ({"num_heads": 0}, "`num_heads`", "num_heads=0"),
        )
    ),
    (lambda: transformer()(IDS), "`inputs`", ""),
    (lambda: transformer()({"source": IDS}), "`inputs`", "source"),
    (lambda: small.make(positions=LearnedPositions(4))(small.sentences()), "`max_length`", "5 tokens"),
    (lambda: small.make(hidden_dim=15)(small.sentences()), "number of features", 15),
    (lambda: decode(2), "`index`", "index=2"),
    (lambda: models.Transformer.from_size("lite", 50, num_heads=3), "`num_heads`", "num_heads=3 for a width of 160"),
    (lambda: models.Transformer.from_size("huge", 50), "`size`", "size='huge'"),
    (lambda: models.T5.from_size("huge"), "t5_base", "size='huge'"),
    (lambda: layers.EncoderBlock("multi_head", 32, recompute="yes"), "`recompute`", "recompute='yes'"),
)


def compile_model(**arguments):
    transformer(loss_chunk_size=4).compile("sgd", **{"loss": LabelSmoothedCrossentropy(), **arguments})


test_losses_in_chunks = refusals(
    *values(
        compile_model,
        loss=("sparse_categorical_crossentropy",),
        metrics=(["accuracy"],),
        weighted_metrics=(["accuracy"],),
    )
)


def write_graph_without(name):
    graphs.shared()({key: x for key, x in graphs.graphs().items() if key != name})


test_graph_writer = refusals(
    *values(graphs.make, hidden_dim=(15, 10), num_layers=(0,), title_vocabulary_size=(0,), dropout=(1.0,)),
    *values(graphs.make, attention=("graphs",)),
    (lambda: graphs.make(forbidden_ids=(-1,)), "`forbidden_ids`", -1),
    *(
        (functools.partial(write_graph_without, name), "`inputs`", "inputs=['entities', ")
        for name in ("title", "target")
    ),
)


def test_positions_in_a_graph_and_of_texts_in_a_row():
    """Rows may have more tokens than there are positions, texts may not."""
    model, packed = encoders.make(), np.repeat([[0, 1, -1]], [4, 10, 2], axis=1)
    ids = np.where(packed < 0, 0, np.ones_like(packed))
    model({"token_ids": ids, "sequence_ids": packed})
    for call in (
        lambda: model({"token_ids": np.ones((1, 11), "int32"), "sequence_ids": np.zeros((1, 11), "int32")}),
        lambda: tf.function(model, input_signature=[tf.TensorSpec((None, None), tf.int32)])(np.ones((1, 11), "int32")),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="positions for 10 tokens"):
            call()


# ------------------------------------------------------------------------------------------- language models


language_model = functools.partial(models.CausalLM, 10, num_layers=1, hidden_dim=16, num_heads=4)
learned = functools.partial(language_model, positions="learned", max_length=4)


def read(name="multi_head", ids=IDS, **inputs):
    language_model(attention=name, positions=None)({"token_ids": ids, **inputs})


def prefill(name="multi_head", ids=IDS, positions=None, max_length=None, **arguments):
    model = language_model(attention=name, positions=positions, max_length=max_length)
    model.build()
    model.prefill(ids, model.init_cache(2, 6), **arguments)


def trim(name):
    model = language_model(attention=name)
    model.build()
    model.trim_cache(model.init_cache(2, 6), 3)


test_causal_lm = refusals(
    *values(language_model, attention=("nothing", 3), dropout=(1.5,), num_heads=(0, 3), num_layers=(0,)),
    *values(language_model, normalization=("middle",), positions=("none",), max_length=(0,)),
    *values(language_model, logits_soft_cap=(0,), embedding_scale=(-1,), intermediate_dim=(0,), loss_chunk_size=(0,)),
    *(
        (functools.partial(language_model, attention=name), "`attention` must be causal", f"attention={cls}")
        for name, cls in (("re_attention", "ReAttention"), ("graph", "GraphAttention"))
    ),
    (
        lambda: language_model(attention=["multi_head", layers.EvolvingAttention(4, 4, role="encoder")]),
        "`attention` must be causal",
        "role='encoder'",
    ),
    (lambda: language_model(attention=[]), "`attention`", "attention=[]"),
    (lambda: language_model(attention=MULTI_HEAD, attention_arguments={"use_gate": True}), "`attention_arguments`", ""),
    (lambda: language_model(attention_arguments={"key_dim": 0}), "`attention`", ""),
    *(
        (functools.partial(language_model, attention=name), 'positions="learned"', cls)
        for name, cls in (("collaborative", "CollaborativeAttention"), ("synthesizer", "SynthesizerAttention"))
    ),
    (lambda: language_model(attention_arguments={"key_dim": 3}).build(), "even number of features", 3),
    (lambda: language_model(positions="learned"), "`max_length`", "max_length=None"),
    (
        lambda: language_model(intermediate_dim=8, feed_forward=layers.FeedForward(9)),
        "`intermediate_dim`",
        "intermediate_dim=8, and 9",
    ),
    (
        lambda: language_model(num_heads=4, attention="grouped_query", attention_arguments={"num_key_value_heads": 3}),
        "`num_key_value_heads`",
        3,
    ),
    (lambda: models.CausalLM.from_size("huge"), "`size`", "size='huge'"),
    (lambda: read(ids=IDS + 9), "Token ids", 10),
    (lambda: read(ids=-IDS), "Token ids", -1),
    (lambda: read(padding_mask=IDS), "`inputs`", "['padding_mask', 'token_ids']"),
    (lambda: learned()(IDS), "max_length=4", "5 tokens"),
    (lambda: prefill(positions="learned", max_length=4), "`tokens`", "5 tokens"),
    (lambda: prefill(ids=IDS[:, :0]), "`token_ids`", "(2, 0)"),
    (lambda: prefill(first=np.array([0, 6])), "`first`", "[0, 6]"),
    (lambda: prefill(ids=IDS[:, :3], first=np.array([0, 2]), index=3), "`first`", "index=3"),
    (
        lambda: language_model(attention="synthesizer", positions=None, attention_arguments={"max_length": 4})(IDS),
        "max_length=4",
        "5 tokens",
    ),
    (lambda: language_model().init_cache(2, 6), "`init_cache`", "causal_lm"),
    (lambda: prefill(chunk_size=0), "`chunk_size`", 0),
    (lambda: prefill(ids=np.ones((2, 7), "int32")), "`index`", "index=0"),
    *(
        case
        for name in ("evolving", "synthesizer")
        for case in (
            (functools.partial(read, name, sequence_ids=IDS), "`sequence_ids`", ""),
            (functools.partial(prefill, name, first=np.zeros(2, "int32")), "`first`", ""),
        )
    ),
    (lambda: trim("evolving"), "`trim_cache`", "EvolvingAttention"),
)

# -------------------------------------------------------------------------------------------------- encoders


def classifier(*arguments, encoder="bert", **named):
    return models.EncoderClassifier(encoders.make(encoder, randomly=False), 2, *arguments, **named)


test_bert = refusals(
    *values(encoders.make, vocabulary_size=(0,), num_segments=(-1,), num_heads=(5,), attention=("heads",)),
    *values(encoders.make, attention_dropout=(1,), pad_id=(13,)),
    *values(lambda **given: encoders.make("modernbert", **given), global_every=(0,), sliding_window=(0,)),
    *values(encoders.make, dropout=(-0.1,), initializer_range=(0,)),
    (lambda: encoders.make()({"token_ids": IDS, "padding_mask": IDS}), "`inputs`", "['padding_mask', 'token_ids']"),
    (lambda: encoders.make("roberta")(encoders.pairs()), "`inputs`", "['segment_ids', 'token_ids'] of bert"),
    *(
        (lambda kind=kind: encoders.make(kind)(np.ones((1, 11), "int32")), "10 tokens", "11 tokens")
        for kind in ("bert", "roberta")
    ),
    *values(models.Bert.from_size, size=("base",)),
    (
        lambda: models.Bert(9, 12, 10, 1, 3, max_length=9, embeddings=models.Bert(9, 12, 10, 1, 3)),
        "`embeddings`",
        "max_length=9",
    ),
)

test_heads = refusals(
    (lambda: models.MaskedLM(keras.layers.Dense(3)), "`encoder`", "encoder=<Dense"),
    *values(classifier, kind=("t5",), pooling=("max",)),
    *(
        (functools.partial(classifier, **arguments), "`encoder` must have no pooler", "a pooler, kind=")
        for arguments in ({"kind": "roberta"}, {"head_dim": 2000}, {"pooling": "mean"})
    ),
    (lambda: classifier("linear", encoder="electra", head_dim=7), "`head_dim`", "head_dim=7, kind='linear'"),
    (lambda: models.RationaleClassifier(models.Bert(20, 8, 16, 3, 2), 2, trainable_layers=4), "`trainable_layers`", 4),
    (lambda: models.RationaleClassifier(keras.layers.Dense(2), 2), "`encoder`", "<Dense"),
)


def electra_pretraining(**arguments):
    encoder = models.Bert(electra.VOCABULARY, 12, 10, 1, 3, pooler=False)
    generator = models.Bert(electra.VOCABULARY, 6, 10, 1, 1, pooler=False, embeddings=encoder)
    given = {"generator": models.MaskedLM(generator), "discriminator": models.ReplacedTokenDetector(encoder)}
    given |= {"mask_id": electra.MASK, "special_ids": electra.SPECIAL}
    return models.ElectraPretraining(**{**given, **arguments})


def without_masked_ids():
    model = electra.make()
    inputs = electra.given_masks(model)
    del inputs["masked_ids"]
    model(inputs)


test_pretraining = refusals(
    *values(electra_pretraining, mask_id=(-1, 23), special_ids=(3, [99], list(range(23))), drawn_share=(0,)),
    *values(electra_pretraining, discriminator_weight=(-1,), generator=("small",), discriminator=(None,)),
    (lambda: electra_pretraining(masked_share=0.9, random_share=0.2), "`random_share`", "random_share=0.2"),
    (
        lambda: electra_pretraining(generator=models.MaskedLM(models.Bert(23, 6, 10, 1, 1, pooler=False))),
        "`generator` must have the discriminator's embeddings",
        "bert",
    ),
    (lambda: models.ElectraPretraining.from_size("bert_base", 4, (2, 3)), "`size`", "size='bert_base'"),
    (without_masked_ids, "`inputs` must have all of masked_ids", "mask_weights"),
)


# ------------------------------------------------------------------------------- sentences, series and images

encoder = functools.partial(models.BiLSTMEncoder, 11, 12, 5)
each_sentence_classifier = (
    functools.partial(models.SentenceClassifier, num_classes=3),
    functools.partial(models.SentencePairClassifier, num_classes=3),
)

test_sentence_classifiers = refusals(
    *(
        case
        for make in (encoder, functools.partial(models.TransformerEncoder, 11, 12, 5, num_heads=6))
        for case in (
            *values(make, num_layers=(0,), dropout=(1.5,)),
            (functools.partial(make, embeddings=np.zeros((3, 4))), "`embeddings`", (3, 4)),
        )
    ),
    *values(functools.partial(models.TransformerEncoder, 11), num_heads=(7,), attention=("heads",)),
    *(
        case
        for make in each_sentence_classifier
        for case in (
            *values(make, encoder=("bilstm",)),
            *values(functools.partial(make, encoder()), pooling=("max",), dropout=(1.5,)),
        )
    ),
    (
        lambda: models.SentenceClassifier(encoder(), 3, keras.layers.Activation("relu")).build(),
        "`pooling`",
        "an output of shape (None, None, 10)",
    ),
)

test_series = refusals(
    *values(
        functools.partial(models.DCTransformer, max_length=9, num_outputs=2),
        num_outputs=(0,),
        pooling=("max",),
        key_ratio=(1.5,),
        dropout=(-1,),
        attention=("heads",),
    ),
    (lambda: models.DCTransformer(3, max_length=9)(np.zeros((2, 10, 5))), "max_length=9", "10 steps"),
)

resnet = functools.partial(
    models.ResNet, (1, 2, 1), filters=16, small_images=True, input_shape=(8, 8, 3), classes=5, min_key_dim=4
)
vit = functools.partial(
    models.ViT,
    input_shape=(4, 6, 3),
    patch_size=2,
    hidden_dim=8,
    intermediate_dim=12,
    num_layers=2,
    num_heads=2,
    classes=5,
)

test_images = refusals(
    *values(
        functools.partial(resnet, attention=MULTI_HEAD),
        pooling=("mean",),
        return_stages=(True,),
        attention_stages=((3,),),
        downsampled_stages=((-4,),),
    ),
    (
        lambda: resnet(attention=MULTI_HEAD, input_shape=(None, None, 3)),
        "`inputs`",
        "inputs of shape (None, None, None",
    ),
    *values(resnet, attention=("evolved",)),
    *values(vit, pooling=("max",), input_shape=((5, 6, 3),), stochastic_depth=(1,), attention=("evolved",)),
    (lambda: vit()(np.zeros((1, 6, 4, 3))), "`inputs`", "shape (1, 6, 4, 3)"),
)


def test_file_of_weights_that_is_not_there():
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere.weights.h5"):
        resnet(weights="nowhere.weights.h5")


@pytest.mark.parametrize("suffix", ("h5", "hdf5"))
def test_hdf5_of_a_whole_model(tmp_path, suffix):
    """Keras writes it, and cannot read it again."""
    path = tmp_path / f"model.{suffix}"
    with refused(".keras", "filepath="):
        small.shared().save(path)
    assert not path.exists()


def test_all_models_refuse_hdf5():
    classes = [getattr(room, name) for room in (decoding, models) for name in room.__all__]
    classes = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, keras.Model)]
    assert len(classes) > 10 and {cls.save for cls in classes} == {models.Transformer.save}
