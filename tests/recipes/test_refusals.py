"""Settings that are out of range or contradict each other, and wrong arguments of what recipes are made of."""

import functools

import numpy as np

from keras_headattn.analysis import aopc, comprehensiveness, top_words
from keras_headattn.data import ParallelCorpus
from keras_headattn.metrics import bleu
from keras_headattn.models import EncoderClassifier
from recipes.classify.settings import ClassifyConfig
from recipes.classify.text import embedding_width, word_vector_width
from recipes.engine.config import override
from recipes.engine.encoders import make_encoder
from recipes.engine.finished import chosen_layers
from recipes.engine.generation import score_texts
from recipes.engine.modelling import make_attention
from recipes.engine.numbers import numbers_corpus
from recipes.engine.settings import Heads
from recipes.glue.settings import GlueConfig
from recipes.graphs.corpus import Graph
from recipes.graphs.files import graph_from_json
from recipes.graphs.metrics import entities_named, repeated_clauses
from recipes.graphs.settings import GraphsConfig
from recipes.graphs.vocabulary import GraphVocabulary
from recipes.imagenet.folders import ImageFiles, read_folder
from recipes.imagenet.settings import ImageNetConfig
from recipes.pretrain.settings import PretrainConfig
from recipes.rationales.eraser import write_rationales
from recipes.rationales.metrics import iou_f1, rationale_auprc, rationale_average_precision, token_f1
from recipes.sweep import named_table
from recipes.translate.__main__ import RECIPE as TRANSLATE
from recipes.translate.cleaning import clean
from recipes.translate.settings import TranslateConfig
from tests.recipes.engine.test_config import Others, Settings
from tests.refusals import refusals, values


def changed(cls, **given):
    override(cls(), given)


CLASSES = ClassifyConfig, GlueConfig, ImageNetConfig, PretrainConfig, TranslateConfig
classify, glue, imagenet, pretrain, translate = (functools.partial(changed, cls) for cls in CLASSES)
FILES = {"train": ("a",), "validation": ("c",)}
STEPS = (10,), (0, 2), (5, 4)
EMBEDDED_GLUE = {"built_in": True, "size": "bert_tiny"}


def attention(**values):
    return lambda: make_attention(Heads(**values), 8, 2)


def graph(**values):
    good = {"entities": ("a", "b"), "types": ("x", "y"), "triples": ((0, "r", 1),)}
    return lambda: Graph(**good | values)


test_values = refusals(
    *values(functools.partial(changed, Settings), size=("4", True), kind=("c",), files=("x",), speed=(1,)),
    *values(functools.partial(changed, Settings), rate=(None, -0.1, 9.0), limit=(0,)),
    (lambda: Others(rate=2.0), "--rate", 2.0),
)

test_classify = refusals(
    *values(classify, labels=(("a", "a"),), encoder=("gru",), test_share=(1.0,)),
    (lambda: classify(train=("a",), tfds="b"), "--tfds", "train=('a',), tfds='b'"),
    (lambda: classify(validation=("a",)), "--validation", "without --train"),
    (lambda: classify(labels=("a", "b"), drop_labels=("b",)), "dropped", "b in --labels and --drop-labels"),
    (lambda: classify(tokens="pieces", embeddings="glove.txt"), "--embeddings", "'glove.txt'"),
    (lambda: classify(repulsive="svgd", pooling_heads=1), "--pooling-heads", 1),
    (lambda: classify(callback_arguments={"profile_steps": (3,)}), "profile_steps", (3,)),
    (lambda: classify(encoder="cnn", repulsive="svgd"), "--repulsive", "encoder='cnn'"),
    (lambda: classify(encoder="naive_bayes", attention_regularizer="frobenius"), "--attention-regularizer", ""),
    (lambda: classify(encoder="naive_bayes", predict="number"), "--encoder naive_bayes", "predict='number'"),
    (lambda: classify(attention="talking_heads"), "--attention", "attention='talking_heads'"),
    (lambda: embedding_width("none.txt"), "file", "none.txt", FileNotFoundError),
    (lambda: word_vector_width("none.txt"), "file", "none.txt", FileNotFoundError),
)

test_translate = refusals(
    *values(translate, epochs=(0,), label_smoothing=(float("nan"),), learning_rate=(0.0,), time_limit=(0.0,)),
    *values(translate, vocabulary_size=(7,), samples=(-1,)),
    (lambda: translate(train=("a", "b")), "--validation", "validation=()"),
    (lambda: translate(train=("a", "b", "c"), validation=("c", "d")), "--train", "a b c"),
    (lambda: translate(train=("a.tsv", "b.tsv"), validation=("c", "d")), "--train", "a.tsv b.tsv"),
    (lambda: translate(**FILES, test=("d", "e.tsv")), "--test", "d e.tsv"),
    (lambda: translate(**FILES, columns=(0, 1)), "--columns", (0, 1)),
    (lambda: translate(**FILES, columns=(1,)), "--columns", (1,)),
    (lambda: translate(test=("a",)), "--test", "without --train"),
    (lambda: translate(validation=("a", "b")), "--validation", "without --train"),
    (lambda: translate(tfds="name", test=("a", "b")), "--test", "tfds='name', without --train"),
    (lambda: translate(iwslt="folder", tfds="name"), "--tfds", "iwslt='folder', tfds='name'"),
    (lambda: translate(built_in=True, tfds="name"), "--built-in", "tfds='name', built_in=True"),
    (lambda: translate(truecase=True), "--truecase", "truecase=True, moses=False"),
    (lambda: translate(truecase=True, moses=True, lowercase=True), "--lowercase", "both"),
    (lambda: translate(target_vocabulary_size=900), "--target-vocabulary-size", 900),
    *values(lambda profile_steps: translate(callback_arguments={"profile_steps": profile_steps}), profile_steps=STEPS),
    (lambda: TRANSLATE.named_config(None).data, "--train", "none of them"),
    (lambda: TRANSLATE.named_config("multi30k").data, "--train", "none of them"),
    (lambda: TRANSLATE.named_config("nonsense"), "--config", "nonsense"),
    (lambda: clean(ParallelCorpus(["a b"], ["c"], "demo"), max_words=1), "too long: 1", "max_words=1"),
    (lambda: named_table("interacting_table33"), "interacting_table3", "interacting_table33"),
)

test_glue = refusals(
    (lambda: glue(glue="GLUE"), "--task", "glue='GLUE'"),
    (lambda: glue(task="cola", built_in=True), "tasks", "task=cola, built_in=True"),
    (lambda: glue(task="paraphrase", glue="GLUE"), "tasks", "task=paraphrase, glue='GLUE'"),
    (lambda: glue(task="cola", labels=("0", "1")), "labels", "task='cola', labels=('0', '1')"),
    (lambda: glue(checkpoint="a", size="bert_tiny"), "--checkpoint", "'a' and 'bert_tiny'"),
    (lambda: glue(pretraining_epochs=1, glue="GLUE", task="cola"), "--pretraining-epochs", "built_in=False"),
    (lambda: glue(task="stsb", glue="GLUE", class_weights="balanced"), "--class-weights", "task=stsb"),
    (lambda: glue(tfds="glue/cola", task="rte"), "--tfds", "tfds='glue/cola', task='rte'"),
    (lambda: glue(tfds="imdb_reviews", task="cola"), "--tfds", "tfds='imdb_reviews', task='cola'"),
    (lambda: glue(task="stsb", glue="GLUE", select="val_accuracy"), "accuracy", "'val_accuracy'"),
    (lambda: glue(encoding="klingon"), "--encoding", "klingon"),
    (
        lambda: make_encoder(GlueConfig(size="bert_tiny", max_length=513), 9, EncoderClassifier),
        "--max-length must be at most the encoder's number of positions, 512",
        513,
    ),
)

test_imagenet = refusals(
    *values(imagenet, resized=(100,), decay_epochs=((3, 2),), attention=("more",), mixup=(-1.0,)),
    *values(imagenet, attention_arguments=({"alpha": 0.5},)),
    (lambda: imagenet(images="a", tfds="b"), "--images", "images='a', tfds='b'"),
    (lambda: imagenet(built_in=True, validation_labels="a"), "--validation-labels", "validation_labels='a'"),
    (lambda: imagenet(images="a", validation_labels="b", validation="0.1"), "--validation-labels", "validation=0.1"),
    (lambda: imagenet(images="a", validation="1.5"), "--validation", "1.5"),
    (lambda: ClassifyConfig(train=("a",), validation=("1.5",)), "--validation", "1.5"),
    (lambda: GraphsConfig(train=("a",), validation=("0",)), "--validation", "0"),
    (lambda: TranslateConfig(train=("a", "b"), validation=("0.1",), records="c"), "--records", "validation=0.1"),
    (lambda: imagenet(callback_arguments={"profile_steps": (3,)}), "profile_steps", (3,)),
    (lambda: imagenet(model="vit_tiny", image_size=100), "--image-size", 100),
    (lambda: imagenet(schedule="cosine", epochs=5, warmup_epochs=5.0), "--warmup-epochs", 5.0),
    (lambda: imagenet(optimizer="adamw", optimizer_arguments={"momentum": 0.8}), "AdamW", "momentum=0.8"),
    (lambda: read_folder("nothing"), "no folder of images", "nothing"),
    (lambda: ImageFiles([], [], ["a"]), "no images", "an empty list"),
)

test_pretrain = refusals(
    (lambda: pretrain(train=("a",), built_in=True), "--built-in", "train=('a',), built_in=True"),
    (lambda: PretrainConfig().data, "--records", "none of them"),
    (lambda: pretrain(warmup_steps=50, epochs=5, epoch_steps=10), "--warmup-steps", 50),
)

test_lora = refusals(
    (lambda: glue(**EMBEDDED_GLUE, lora_rank=2), "--checkpoint", "lora_rank=2"),
    (lambda: translate(built_in=True, lora_rank=2), "--pretrained", "lora_rank=2"),
    (lambda: glue(checkpoint="bert", repulsive="svgd", lora_rank=2), "--repulsive svgd", "lora_rank=2"),
    (lambda: glue(checkpoint="bert", attention_regularizer="cosine", lora_rank=2), "--attention-regularizer", "=2"),
    (lambda: GlueConfig(**EMBEDDED_GLUE).refuse_unused({"lora_alpha": 2.0}), "--lora-alpha", "lora_alpha=2.0"),
)

test_attention = refusals(
    (attention(attention="evolving", attention_arguments={"alpha": 2}), "--attention-arguments: `alpha`", 2),
    (attention(attention="interacting", attention_arguments={"interaction": "some"}), "interaction", "'some'"),
    (attention(attention_arguments={"key_dim": "wide"}), "--attention-arguments: `key_dim`", "wide"),
    (lambda: chosen_layers("ab", [0, 2, -3]), "2 attention layers", "--layers 0 -3"),
)

test_texts = refusals(
    (lambda: numbers_corpus("en"), "target_language", "'en'"),
    (lambda: numbers_corpus("xx"), "target_language", "'xx'"),
    (lambda: score_texts(["a b"], ["a b"], [bleu, functools.partial(bleu, tokenize="none")]), "metric", "tok:13a"),
)

test_graphs = refusals(
    (graph(types=()), "graph", "0 types for 2 entities"),
    (graph(entities=(), types=()), "graph", "no entities"),
    (graph(entities=("a", " ")), "graph", "an entity without a name"),
    (graph(triples=((0, "r", 2),)), "graph", "a triple with entity 2 of 2"),
    (graph(triples=((0.5, "r", 1),)), "graph", "the triple (0.5, 'r', 1)"),
    (graph(triples=((0, 1),)), "graph", "the triple (0, 1)"),
    (graph(texts=((0, "is", -1),)), "graph", "a text with entity -1 of 2"),
    (lambda: graph_from_json({"entities": ["a"]}), "JSON object", "dict"),
    (lambda: graph_from_json(b"{}"), "JSON object", "bytes"),
    (lambda: graph_from_json("[" * 100_000), "JSON object", "nested too deeply"),
    (lambda: graph_from_json('{"entities": ["a"], "types": []}'), "JSON object", "0 types for 1 entities"),
    (lambda: GraphVocabulary([], [], [], [], [], "words"), "split", "'words'"),
    (lambda: entities_named(["a"], [["a"], ["b"]]), "text", "1 of 2"),
    (lambda: repeated_clauses([]), "text", "none"),
)

test_rationales = refusals(
    (lambda: iou_f1([[]], [[], []]), "predicted", "1 and 2"),
    (lambda: token_f1([[(3, 1)]], [[]]), "predicted", (3, 1)),
    (lambda: rationale_auprc([[1, np.nan]], [[True, False]]), "scores", "1 of them NaN"),
    (lambda: rationale_auprc([[1, 2]], [[True]]), "scores", "scores of shape (2,), truth of shape (1,)"),
    (lambda: rationale_average_precision([], []), "scores", "0 and 0"),
    (lambda: aopc([[0.5, 0.5]], []), "parts", "none"),
    (lambda: aopc([[0.5, 0.5]], [[[0.5, 0.9]]]), "parts", "shape (1, 2)"),
    (lambda: comprehensiveness([[0.5, 0.5]], [[0.5, 0.5]], [2]), "classes", [2]),
    (lambda: top_words([1, 2], 1.5), "share", 1.5),
    (lambda: top_words([1, np.nan], 0.5), "scores", "[ 1. nan]"),
    (
        lambda: write_rationales("", [{"annotation_id": "a", "rationales": [{"soft": [0.5, np.nan]}]}]),
        "results",
        "nan, annotation a, rationales, 0, soft, 1",
    ),
)
