"""Models of files translate, classify and train on the backend of this process."""

import keras
import numpy as np

from keras_headattn.decoding import Generator, Searcher
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import T5, CausalLM, ElectraPretraining, GraphWriter, Transformer
from keras_headattn.optimizers import AdamWeightDecay
from tests.models import onnx_worker
from tests.models.electra import given_numbers, texts
from tests.models.graphs import graphs
from tests.models.small import sentences

# On JAX one program is quicker than its operations one by one, elsewhere the other way round.
JIT = keras.backend.backend() == "jax"
RUN = {"jit_compile": True} if JIT else {"run_eagerly": True}


def translated(model):
    """Name to array: logits, translations or texts, and the loss and the logits of a step of training."""
    writes = isinstance(model, GraphWriter)
    inputs = graphs() if writes else sentences()
    source = {name: ids for name, ids in inputs.items() if name != "target"} if writes else inputs["source"]
    smoothing = 0.0 if writes else 0.1  # log probabilities of entities that are not there have no mean
    # Before the first prediction, whose program is then that of the second too.
    model.compile(keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(smoothing), **RUN)
    out = {"logits": model.predict(inputs, verbose=0)}
    # Greedy search is the same for all Transformers, beams move what their caches hold.
    for beam_size in (3,) if isinstance(model, Transformer) else (1, 3):
        searcher = Searcher(model, beam_size=beam_size, max_length=6)
        searcher.compile(**RUN)
        found = searcher.predict(source, verbose=0)
        out |= {f"{name}_{beam_size}": value for name, value in found.items()}
    if isinstance(model, T5):
        out |= constrained(model, source)
    out["loss"] = np.array(model.train_on_batch(inputs, inputs["target"]))
    return out | {"trained": model.predict(inputs, verbose=0)}


def constrained(model, source):
    """Name to array: translations under all constraints, and how far the scores of samples are from those of a pass."""
    options = dict(min_length=3, no_repeat_ngram_size=2, repetition_penalty=1.2, coverage_penalty=0.2)
    searcher = Searcher(model, 3, max_length=6, suppress=[0, 5], return_token_scores=True, **options)
    found = searcher(source, prefix=np.array([[7, 8]] + [[0, 0]] * (len(source) - 1)))
    out = {f"{name}_constrained": value for name, value in found.items()}
    sampler = Searcher(model, num_samples=2, alpha=0.0, max_length=6, temperature=1.5, top_k=9, top_p=0.9, suppress=[0])
    drawn = sampler(source)
    scored = sampler.score(source, drawn["tokens"][:, 1])
    out["sampled"] = drawn["scores"][:, 1] - scored["scores"]
    return {name: keras.ops.convert_to_numpy(value) for name, value in out.items()}


def continued(model):
    """Name to array: logits, continuations of texts of unequal length, and a step of training."""
    ids = sentences()["target"]
    model.compile(keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(), **RUN)
    out = {"logits": model.predict(ids, verbose=0)}
    for name, options in (("greedy", {"temperature": 0, "repetition_penalty": 1.2}), ("beams", {"beam_size": 3})):
        found = Generator(model, 6, end_ids=(3,), **options)(ids, np.array([6, 4]))
        out |= {f"{name}_{each}": keras.ops.convert_to_numpy(found[each]) for each in ("tokens", "scores")}
    return out | {"loss": np.array(model.train_on_batch(ids, ids)), "trained": model.predict(ids, verbose=0)}


def classified(model, inputs, labels):
    """Name to array: logits, and the loss of a step of training."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, **RUN)
    out = {"logits": model.predict(inputs, batch_size=len(labels), verbose=0)}
    return out | {"loss": np.array(model.train_on_batch(inputs, labels))}


def pretrained(model, inputs):
    """Name to array: how many tokens are drawn; and of given masks what a call returns, and a step of training."""
    masks, ids = model.draw_masks(texts()), texts()["token_ids"]
    weights, chosen = masks["mask_weights"], keras.ops.take_along_axis(ids, masks["mask_positions"], axis=1)
    out = {"drawn": weights, "drawn_special": keras.ops.sum((chosen < 5) & (weights > 0))}
    optimizer = AdamWeightDecay(0.01, rates={"generator": 0.5}, global_clipnorm=1.0, epsilon=0.01)
    with given_numbers(0.5):
        out |= model(inputs)
        model.compile(optimizer, **RUN)
        out |= {f"logs_{name}": value for name, value in model.train_on_batch(inputs, return_dict=True).items()}
    out |= {f"trained_{number}": weight for number, weight in enumerate(model.get_weights())}
    return {name: keras.ops.convert_to_numpy(value) for name, value in out.items()}


def results(path):
    """Those of a Transformer or a writer of graphs, or where a file of inputs lies beside it of a classifier."""
    model, data = keras.saving.load_model(path), path.with_suffix(".npz")
    if isinstance(model, ElectraPretraining):
        with np.load(data) as given:
            return pretrained(model, dict(given))
    if not data.exists():
        return continued(model) if isinstance(model, CausalLM) else translated(model)
    with np.load(data) as given:
        inputs = tuple(given[name] for name in sorted(given) if name.startswith("arr"))
        return classified(model, inputs if len(inputs) > 1 else inputs[0], given["labels"])


def everything(folder):
    """Results `name/result` of all models of a folder."""
    paths = sorted(folder.glob("*.keras"))
    out = {f"{path.stem}/{name}": value for path in paths for name, value in results(path).items()}
    return out | (onnx_worker.everything() if keras.backend.backend() == "torch" else {})
