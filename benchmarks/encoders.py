"""Fine-tuning and serving of a BERT of all-MiniLM-L6's size: this library and others, with the same weights.

    python -m benchmarks.encoders train [--quick]
    python -m benchmarks.encoders serve [--quick]

`train` measures steps on 2 classes with AdamW, gradients clipped to norm 1 and dropout 0.1: ours as `recipes.glue`
trains on a CPU, with plain and evolving attention; Hugging Face in PyTorch; and KerasHub's backbone, with tanh GELU,
under stock Keras. `serve` measures the time from texts to probabilities: our export, with its tokenizer, in a server's
session, and Hugging Face and ONNX Runtime after Hugging Face's fast tokenizer; and, as a limit, that of the matrix
products alone.

Each library runs in its own processes; they take turns. PyTorch and ONNX Runtime run with one thread and with one per
core, PyTorch with either attention, KerasHub with and without XLA; the fastest counts.
"""

import argparse
import contextlib
import functools
import pathlib
import tempfile

import numpy as np

from benchmarks import minilm, timing
from benchmarks.exports import SESSIONS, Session, import_tensorflow, in_a_fresh_process

OURS, EVOLVING = "this library", "this library, evolving attention"
ATTENTIONS = {OURS: {}, EVOLVING: dict(attention="evolving", attention_arguments=dict(alpha=0.1, beta=0.1))}
HUGGING_FACE, KERAS_HUB, ONNX = "Hugging Face", "KerasHub", "ONNX Runtime"
BATCHES = ((32, 32), (16, 128))  # rows and tokens of the longest, to train
REQUESTS = ((1, 32), (1, 128), (32, 32), (32, 128))
RATE, DECAY, CLIPNORM = 2e-5, 0.01, 1.0  # the defaults of `recipes.glue`


def labels(batch_size):
    return np.arange(batch_size, dtype="int32") % 2


def our_steps(folder):
    """Returns the recipe's training steps by batch and name."""
    from keras_headattn.data import LabelledBatches
    from keras_headattn.interop import tokenizer_of
    from keras_headattn.training import default_jit
    from recipes.engine.encoders import fine_tuning_optimizer, with_reduction
    from recipes.engine.modelling import column_trainer
    from recipes.engine.session import LARGE
    from recipes.glue.settings import GlueConfig
    from recipes.glue.targets import targets_of
    from recipes.glue.train import make_model

    cases = {}
    for name, attention in ATTENTIONS.items():
        config = GlueConfig(checkpoint=folder, **attention)
        targets = targets_of(config, minilm.CLASSES)
        model = make_model(config, tokenizer_of(folder), targets)
        made = {
            (batch_size, length): LabelledBatches(
                {"text": minilm.make_rows(batch_size, length)},
                labels(batch_size),
                batch_size=batch_size,
                bucket_lengths=(length,),
                training=True,
            )
            for batch_size, length in BATCHES
        }
        trainer = column_trainer(["text"], lambda columns, model=model: model(columns["text"]))
        trainer.compile(
            fine_tuning_optimizer(config, 10_000, model.encoder.num_layers),
            with_reduction(targets.make_loss(), config),
            weighted_metrics=targets.make_metrics(),
            jit_compile=default_jit(),
        )
        trainer.jit_update = trainer.count_params() >= LARGE
        cases |= {(batch, name): functools.partial(trainer.train_on_batch, *made[batch][0]) for batch in made}
    return cases


def keras_hub_steps(folder):
    import keras
    from keras import layers

    from keras_headattn.interop import from_pretrained, to_keras_hub

    cases = {}
    for jit_compile in (True, False):
        backbone = to_keras_hub(from_pretrained(folder, activation="gelu_tanh"))
        pooled = layers.Dropout(0.1)(backbone.output["pooled_output"])
        model = keras.Model(backbone.input, layers.Dense(len(minilm.CLASSES))(pooled))
        optimizer = keras.optimizers.AdamW(RATE, DECAY, global_clipnorm=CLIPNORM)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, jit_compile=jit_compile)
        for batch_size, length in BATCHES:
            ids, mask = minilm.padded(minilm.make_rows(batch_size, length))
            inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
            name = f"{KERAS_HUB}{', XLA' if jit_compile else ''}"
            cases[(batch_size, length), name] = functools.partial(model.train_on_batch, inputs, labels(batch_size))
    return cases


def torch_models(folder, threads):
    """Returns the model with each of PyTorch's CPU attentions, by name."""
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(threads)
    return {
        f"{HUGGING_FACE}, {attention}, {threads}": AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation=attention
        )
        for attention in ("eager", "sdpa")
    }


def torch_steps(folder, threads):
    import torch

    cases = {}
    for name, model in torch_models(folder, threads).items():
        optimizer = torch.optim.AdamW(model.train().parameters(), RATE, weight_decay=DECAY, fused=True)

        def step(batch, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPNORM)
            optimizer.step()
            return loss.item()

        for batch_size, length in BATCHES:
            arrays = (*minilm.padded(minilm.make_rows(batch_size, length)), labels(batch_size))
            tensors = (torch.from_numpy(array).long() for array in arrays)
            batch = dict(zip(("input_ids", "attention_mask", "labels"), tensors, strict=True))
            cases[(batch_size, length), name] = functools.partial(step, batch)
    return cases


def requests():
    """Returns texts by number of rows and tokens of the longest."""
    return {request: minilm.make_texts(*request) for request in REQUESTS}


def answers(folder, function, name):
    """Returns functions that answer each request, after a check of `function`, from texts to probabilities."""
    minilm.check(folder, [function(texts) for texts in requests().values()])
    return {(request, name): functools.partial(function, texts) for request, texts in requests().items()}


def session_answers(folder, paths, name):
    cpu_only, threads, flags = SESSIONS[name]
    path = paths[cpu_only]
    import_tensorflow(path, flags)
    import tensorflow_text  # noqa: F401  (its operations)

    session = Session(path, threads)

    def classify(texts):
        outputs = session.call("serving_default", {"text": np.array(texts, object)})
        order = np.argsort(outputs["classes"], axis=1)
        return np.take_along_axis(outputs["scores"], order, axis=1)

    return answers(folder, classify, name)


def torch_answers(folder, threads):
    """Returns Hugging Face's answers and writes the model for ONNX Runtime."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    cases = {}
    for name, model in torch_models(folder, threads).items():
        model.eval()

        def classify(texts, model=model):
            with torch.inference_mode():
                return torch.softmax(model(**tokenizer(texts, padding=True, return_tensors="pt")).logits, -1).numpy()

        cases |= answers(folder, classify, name)
    write_onnx(folder, model, tokenizer(["a text"], return_tensors="pt"))
    return cases


def write_onnx(folder, model, inputs):
    import torch

    path = pathlib.Path(folder, "model.onnx")
    if path.exists():
        return
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "rows", 1: "tokens"} for name in names} | {"logits": {0: "rows"}}
    arguments = tuple(inputs[name] for name in names)
    torch.onnx.export(
        model, arguments, path, input_names=names, output_names=["logits"], dynamic_axes=axes, dynamo=False
    )


def onnx_answers(folder, threads):
    import onnxruntime
    from transformers import AutoTokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def classify(texts):
        (logits,) = session.run(None, dict(tokenizer(texts, padding=True, return_tensors="np")))
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return answers(folder, classify, f"{ONNX}, {threads}")


def start(stack, function, *arguments, threads=None):
    """Returns the cases of a new process."""
    worker = timing.Worker(f"benchmarks.encoders:{function}", *arguments, threads=threads or timing.cores())
    return stack.enter_context(worker).cases


def train(stack, folder, limits):
    cases = start(stack, "our_steps", folder) | start(stack, "keras_hub_steps", folder)
    for threads in sorted({1, timing.cores()}):
        cases |= start(stack, "torch_steps", folder, threads, threads=threads)
    rows = []
    for batch, rounds in measured(cases, OURS, limits):
        for name in rounds.seconds:
            ratio, spread = rounds.ratio(name, OURS)
            time = [f"{rounds.median(name):.3f}", f"{ratio:.2f} ± {spread:.0%}"]
            rows.append([f"{batch[0]} x {batch[1]}", name, *time, *speeds(rounds, name, (HUGGING_FACE, KERAS_HUB))])
    return timing.table(["batch", "", "s a step", "time", *(f"to {peer}" for peer in (HUGGING_FACE, KERAS_HUB))], rows)


def serve(stack, folder, limits):
    paths = {cpu_only: in_a_fresh_process(minilm.export, folder, requests(), cpu_only) for cpu_only in (False, True)}
    cases = {}
    for name in SESSIONS:
        cases |= start(stack, "session_answers", folder, paths, name)
    for peer in ("torch_answers", "onnx_answers"):  # the first writes the model for the second
        for threads in sorted({1, timing.cores()}):
            cases |= start(stack, peer, folder, threads, threads=threads)
    for library in ("tensorflow", "onnx"):
        worker = timing.Worker(f"benchmarks.products:{library}_products", folder, REQUESTS, threads=timing.cores())
        cases |= stack.enter_context(worker).cases
    rows = []
    for request, rounds in measured(cases, "export", limits):
        for name in rounds.seconds:
            time = [f"{value:.1f}" for value in 1e3 * np.percentile(rounds.seconds[name], [50, 99])]
            rows.append([f"{request[0]} x {request[1]}", name, *time, *speeds(rounds, name, (HUGGING_FACE, ONNX))])
    return timing.table(["texts", "", "p50, ms", "p99, ms", *(f"to {peer}" for peer in (HUGGING_FACE, ONNX))], rows)


def measured(cases, reference, limits):
    """Yields pairs of a batch and its `Rounds`."""
    for batch in dict.fromkeys(batch for batch, _ in cases):
        runs = {name: run for (of_batch, name), run in cases.items() if of_batch == batch}
        yield batch, timing.run_rounds(runs, reference, **limits)


def speeds(rounds, name, peers):
    """Returns the speed of a case relative to each other library's fastest, as cells."""
    best = [rounds.fastest([case for case in rounds.seconds if case.startswith(peer)]) for peer in peers]
    return [f"{ratio:.2f} ± {spread:.0%}" for ratio, spread in (rounds.ratio(peer, name) for peer in best)]


TEXTS = {
    "train": "Fine-tuning of an encoder",
    "serve": "Latency of a classifier of texts, as it is served",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=TEXTS, help="what is measured")
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    options = parser.parse_args()
    limits = dict(max_rounds=3) if options.quick else dict(max_rounds=25, max_seconds=120)
    if options.part == "serve":
        limits = dict(max_rounds=5) if options.quick else dict(min_rounds=20, max_rounds=100, max_seconds=60)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        in_a_fresh_process(minilm.make_folder, folder)
        table = {"train": train, "serve": serve}[options.part](stack, folder, dict(min_rounds=3) | limits)
    timing.report(
        None if options.quick else f"encoders_{options.part}",
        f"# {TEXTS[options.part]}",
        f"{minilm.TITLE}; rows and tokens of the longest text, of which the shortest has half; {timing.cores()} "
        "threads. The number after a peer's name is that of its threads. The last columns say how many times as fast "
        "each is as the fastest of each peer.",
        table,
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "keras-hub", "torch", "transformers", "onnxruntime")),
    )


if __name__ == "__main__":
    main()
