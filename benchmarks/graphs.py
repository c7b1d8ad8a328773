"""Training and writing with `models.GraphWriter`, compared with the same model in PyTorch.

    python -m benchmarks.graphs train webnlg [--quick]
    python -m benchmarks.graphs write webnlg [--quick]
    python -m benchmarks.graphs train agenda [--quick]
    python -m benchmarks.graphs write agenda [--quick]

Sizes and lengths are about those of WebNLG and AGENDA; ids are random. Ours trains as `recipes.graphs` does: the
compiled step of `training.Model`, SGD with momentum, gradients clipped to norm 1, dropout 0.1. It writes by
`decoding.Searcher` in a `tf.function`, by XLA, and in sequence, as exports with `cpu_only=True` do; beam 4, a fixed
number of tokens, as no text may end. PyTorch runs with `torch.nn.MultiheadAttention` and with
`scaled_dot_product_attention` on keys and values projected once for all steps, each with one thread and one per core;
the fastest of the four counts. All have the same weights: losses without dropout and scores of texts are compared
first. Each library runs in its own processes, which take turns.
"""

import argparse
import contextlib
import functools
import os
import tempfile

import numpy as np

from benchmarks import timing

# layers, width; ids of words, of words of entities and titles (None: no titles), relations; shapes of a batch to train
SETTINGS = {
    "webnlg": dict(layers=3, width=128, ids=(1713, 3000, None, 246), lengths=(4, 4, 3, None, 18), rows=192, writes=32),
    "agenda": dict(layers=6, width=500, ids=(10_000, 25_000, 5_000, 7), lengths=(12, 3, 5, 10, 110), rows=32, writes=8),
}
OURS, PEER = "this library", "PyTorch"
BEAM = 4
RATE, MOMENTUM, CLIPNORM = 0.1, 0.9, 1.0
TOLERANCE = 1e-4  # of losses


def batch(setting, rows):
    """Draws inputs with 1 to `words` words an entity, otherwise without padding, and labels."""
    entities, words, triples, title, target = SETTINGS[setting]["lengths"]
    vocabulary, entity_vocabulary, title_vocabulary, relations = SETTINGS[setting]["ids"]
    rng = np.random.default_rng(0)
    names = rng.integers(2, entity_vocabulary, (rows, entities, words))
    names *= np.arange(words) < rng.integers(1, words + 1, (rows, entities, 1))
    ends = rng.integers(0, entities, (2, rows, triples))
    inputs = {
        "entities": names,
        "types": rng.integers(4, 9, (rows, entities)),
        "triples": np.stack([ends[0], rng.integers(3, 3 + relations, (rows, triples)), ends[1]], -1),
        "target": rng.integers(4, vocabulary + entities, (rows, target)),
    }
    if title:
        inputs["title"] = rng.integers(2, title_vocabulary, (rows, title))
    labels = np.roll(inputs["target"], -1, 1)
    inputs["target"][:, 0] = 2
    return {name: ids.astype("int32") for name, ids in inputs.items()}, labels.astype("int32")


def make_ours(setting, folder):
    """Returns the model, whose weights are those saved in the folder, or will be."""
    from keras_headattn.models import GraphWriter

    vocabulary, entity_vocabulary, title_vocabulary, relations = SETTINGS[setting]["ids"]
    model = GraphWriter(
        vocabulary,
        entity_vocabulary,
        relations,
        title_vocabulary,
        num_layers=SETTINGS[setting]["layers"],
        hidden_dim=SETTINGS[setting]["width"],
        forbidden_ids=(),
        seed=0,
    )
    model.build()
    weights = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    path = os.path.join(folder, "weights.npz")
    if os.path.exists(path):
        saved = np.load(path)
        for name, variable in weights.items():
            variable.assign(saved[name])
    else:
        np.savez(path, **{name: variable.numpy() for name, variable in weights.items()})
    return model


def our_steps(setting, folder):
    import keras

    from keras_headattn.losses import LabelSmoothedCrossentropy
    from keras_headattn.training import Model

    inputs, labels = batch(setting, SETTINGS[setting]["rows"])
    weights, cases = np.ones(labels.shape, "float32"), {}
    for jit_compile in (False, True):
        model = make_ours(setting, folder)
        symbolic = {name: keras.Input((None, *ids.shape[2:]), dtype="int32", name=name) for name, ids in inputs.items()}
        trainer = Model(symbolic, model(symbolic))
        optimizer = keras.optimizers.SGD(RATE, MOMENTUM, global_clipnorm=CLIPNORM)
        metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        loss = LabelSmoothedCrossentropy(0.0)
        trainer.compile(optimizer, loss, weighted_metrics=metrics, jit_compile=jit_compile)
        trainer.jit_update = model.count_params() >= 10_000_000
        if not jit_compile:
            np.save(os.path.join(folder, "loss.npy"), loss(labels, model(inputs)).numpy())
        name = f"{OURS}, XLA" if jit_compile else OURS
        cases[name] = functools.partial(trainer.train_on_batch, inputs, labels, weights)
    return cases


def our_texts(setting, folder):
    import tensorflow as tf

    from keras_headattn._private import in_sequence
    from keras_headattn.decoding import Searcher

    inputs, _ = batch(setting, SETTINGS[setting]["writes"])
    graphs = {name: tf.constant(ids) for name, ids in inputs.items() if name != "target"}
    searcher = Searcher(make_ours(setting, folder), BEAM, alpha=0.0, max_length=inputs["target"].shape[1])
    searcher.end_id = 10**6  # no token has it, so that every search has all its steps
    cases = {}
    for jit_compile in (False, True):
        search = tf.function(searcher, jit_compile=jit_compile, autograph=False)
        cases[f"{OURS}, XLA" if jit_compile else OURS] = functools.partial(search, graphs)
    search = tf.function(searcher, autograph=False, experimental_attributes={"_noinline": True})

    def call(graphs):  # as exports with `cpu_only=True`
        with in_sequence():
            return search(graphs)

    cases[f"{OURS}, in sequence"] = functools.partial(tf.function(call, autograph=False), graphs)
    np.save(os.path.join(folder, "scores.npy"), cases[OURS]()["scores"][:, 0].numpy())
    return cases


def torch_graphs(setting, rows):
    import torch

    from keras_headattn.ops import graph_adjacency

    inputs, labels = batch(setting, rows)
    adjacency, _ = graph_adjacency(inputs["triples"], (inputs["entities"] != 0).any(-1))
    graphs = {name: torch.from_numpy(ids).long() for name, ids in inputs.items()}
    return graphs | {"adjacency": torch.from_numpy(np.array(adjacency))}, torch.from_numpy(labels).long()


def make_torch(setting, folder, threads):
    """Yields name and model of each kind of attention."""
    import torch

    from benchmarks.torch_writer import Attention, StockAttention, Writer

    torch.set_num_threads(threads)
    vocabulary, entity_vocabulary, title_vocabulary, relations = SETTINGS[setting]["ids"]
    sizes = (vocabulary, entity_vocabulary, relations, title_vocabulary)
    weights = dict(np.load(os.path.join(folder, "weights.npz")))
    for name, attention in (("MultiheadAttention", StockAttention), ("projected once", Attention)):
        model = Writer(attention, *sizes, SETTINGS[setting]["layers"], SETTINGS[setting]["width"]).load(weights)
        yield f"{PEER}, {name}, {threads} thread{'s' if threads > 1 else ''}", model


def torch_steps(setting, folder, threads):
    import torch

    graphs, labels = torch_graphs(setting, SETTINGS[setting]["rows"])
    cases = {}
    for name, model in make_torch(setting, folder, threads):
        with torch.no_grad():
            loss = model.eval().loss(graphs, labels).item()
        np.testing.assert_allclose(loss, np.load(os.path.join(folder, "loss.npy")), rtol=TOLERANCE)
        optimizer = torch.optim.SGD(model.train().parameters(), RATE, MOMENTUM)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model.loss(graphs, labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPNORM)
            optimizer.step()
            return loss.item()

        cases[name] = step
    return cases


def torch_texts(setting, folder, threads):
    graphs, labels = torch_graphs(setting, SETTINGS[setting]["writes"])
    cases = {}
    for name, model in make_torch(setting, folder, threads):
        write = functools.partial(model.eval().write, graphs, BEAM, labels.shape[1])
        scores = np.load(os.path.join(folder, "scores.npy"))
        np.testing.assert_allclose(write()[1].numpy(), scores, rtol=TOLERANCE)
        cases[name] = write
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["train", "write"])
    parser.add_argument("setting", choices=list(SETTINGS))
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    arguments = parser.parse_args()
    limits = dict(min_rounds=3, max_rounds=3) if arguments.quick else dict(min_rounds=5, max_rounds=25, max_seconds=60)
    kind = "steps" if arguments.task == "train" else "texts"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def start(cases, *more, threads):
            worker = timing.Worker(f"benchmarks.graphs:{cases}", arguments.setting, folder, *more, threads=threads)
            return stack.enter_context(worker).cases

        cases = start(f"our_{kind}", threads=timing.cores())
        for threads in sorted({1, timing.cores()}):
            cases |= start(f"torch_{kind}", threads, threads=threads)
        rounds = timing.run_rounds(cases, OURS, **limits)
    _report(arguments, rounds)


def _report(arguments, rounds):
    setting = SETTINGS[arguments.setting]
    entities, _, triples, title, target = setting["lengths"]
    peer = rounds.fastest([name for name in rounds.seconds if name.startswith(PEER)])
    is_training = arguments.task == "train"
    rows, unit = (setting["rows"], "graphs/s") if is_training else (setting["writes"] * target, "tokens/s")
    lines = []
    for name in rounds.seconds:
        ratio, spread = rounds.ratio(peer, name)
        lines.append([name, f"{rows / rounds.median(name):,.1f}", f"{ratio:.2f} ± {spread:.0%}"])
    words = f"{entities} entities, {triples} triples, " + (f"a title of {title} words, " if title else "no title, ")
    words += f"texts of {target} tokens" + ("" if is_training else f", beam {BEAM}")
    timing.report(
        None if arguments.quick else f"graphs_{arguments.task}_{arguments.setting}",
        f"# {'Training' if is_training else 'Writing'} with GraphWriter, sizes of {arguments.setting}",
        f"{setting['layers']} blocks, {setting['width']} wide, {setting['ids'][0]:,} words; batches of "
        f"{setting['rows'] if is_training else setting['writes']} graphs with {words}. This library with "
        f"{timing.cores()} threads. The last column says how many times as fast each is as the fastest in PyTorch.",
        timing.table(["", unit, "to PyTorch"], lines),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch")),
    )


if __name__ == "__main__":
    main()
