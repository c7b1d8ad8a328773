"""Language models: this library beside KerasHub and Hugging Face.

    python -m benchmarks.language_models libraries [--quick]
    python -m benchmarks.language_models memory [--quick]

`libraries` measures training steps and greedy texts of a small GPT-2, as each library's users run them: ours as
`recipes.lm`; KerasHub's `GPT2CausalLM` with XLA; Hugging Face's `GPT2LMHeadModel` in PyTorch with its cache, eager and
with `sdpa`. Each library runs in a process of its own; they take turns. PyTorch runs with one thread and with one per
core; the faster counts. `memory` measures a training step of GPT-2 small beside KerasHub's: the most memory that the
step needs above what the process has, weights, moments and data, before it.
"""

import argparse
import contextlib
import functools
import os
import subprocess
import sys

import numpy as np

from benchmarks import timing

OURS, KERAS_HUB, HUGGING_FACE = "this library", "KerasHub", "Hugging Face"
VOCABULARY, LAYERS, WIDTH, HEADS, POSITIONS = 5_000, 6, 384, 6, 1_024  # of the small GPT-2
BATCHES = ((8, 256), (2, 1_024))  # rows and tokens, to train
PROMPTS, WRITTEN = ((1, 32), (8, 32), (1, 512), (8, 512)), 128  # rows and tokens of prompts, and tokens written
RATE, DECAY = 1e-3, 0.1
LARGE_VOCABULARY, OF_MEMORY = 50_257, (4, 1_024)  # of GPT-2; rows and tokens of a step whose memory is measured
LOSS = {"loss_chunk_size": 1_024}
MEMORY = {OURS: {}, f"{OURS}, loss_chunk_size": LOSS, f"{OURS}, and recompute": LOSS | {"recompute": True}}


def ids(rows, length, vocabulary=VOCABULARY):
    return np.random.default_rng(0).integers(10, vocabulary, (rows, length), "int32")


def our_trainer(config, vocabulary_size):
    """Returns the compiled trainer of `recipes.lm`, and its model."""
    from keras_headattn.losses import LabelSmoothedCrossentropy
    from keras_headattn.training import default_jit
    from recipes.engine.modelling import token_trainer
    from recipes.engine.session import LARGE
    from recipes.lm.train import adam, make_model

    model = make_model(config, vocabulary_size)
    trainer = token_trainer(model)
    trainer.compile(adam(config, 10_000, model), LabelSmoothedCrossentropy(0.0), jit_compile=default_jit())
    trainer.jit_update = trainer.count_params() >= LARGE
    return trainer, model


def training_step(trainer, tokens):
    """Returns a function that makes a step on rows of tokens, each the label of the one before."""
    return functools.partial(trainer.train_on_batch, tokens[:, :-1], tokens[:, 1:])


def our_cases(batches, prompts):
    from keras_headattn.decoding import Generator
    from recipes.engine.config import override
    from recipes.lm.settings import LmConfig

    sizes = dict(num_layers=LAYERS, hidden_dim=WIDTH, intermediate_dim=4 * WIDTH)
    config = override(LmConfig(), dict(size="gpt2", num_heads=HEADS, model_arguments=sizes, length=POSITIONS))
    trainer, model = our_trainer(config, VOCABULARY)
    cases = {(batch, OURS): training_step(trainer, ids(batch[0], batch[1] + 1)) for batch in batches}
    generator = Generator(model, max_length=WRITTEN, temperature=0)
    generator.compile(jit_compile=True)
    for prompt in prompts:
        cases[prompt, OURS] = functools.partial(generator.predict, ids(*prompt), verbose=0)
    return cases


def compiled_keras_hub(backbone):
    """Returns KerasHub's language model, compiled as `our_trainer` is."""
    import keras
    import keras_hub

    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(RATE, DECAY, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, sampler="greedy", jit_compile=True)
    return model


def keras_hub_cases(batches, prompts):
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(VOCABULARY, LAYERS, HEADS, WIDTH, 4 * WIDTH, 0.0, POSITIONS)
    model, cases = compiled_keras_hub(backbone), {}
    for rows, length in batches:
        tokens = ids(rows, length + 1)
        inputs = {"token_ids": tokens[:, :-1], "padding_mask": np.ones((rows, length), "bool")}
        cases[(rows, length), KERAS_HUB] = functools.partial(model.train_on_batch, inputs, tokens[:, 1:])
    for rows, length in prompts:
        tokens = np.pad(ids(rows, length), ((0, 0), (0, WRITTEN)))
        mask = np.broadcast_to(np.arange(length + WRITTEN) < length, tokens.shape)
        inputs = {"token_ids": tokens, "padding_mask": mask}
        cases[(rows, length), KERAS_HUB] = functools.partial(model.generate, inputs, stop_token_ids=None)
    return cases


def torch_cases(batches, prompts, threads):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(threads)
    sizes = dict(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS)
    off = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    cases = {}
    for kind in ("eager", "sdpa"):
        model = GPT2LMHeadModel(GPT2Config(**sizes, **off, attn_implementation=kind))
        optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)

        def step(tokens, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model.train()(input_ids=tokens, labels=tokens).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        def write(tokens, model=model):
            with torch.inference_mode():
                options = dict(do_sample=False, max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, pad_token_id=0)
                model.eval().generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), **options)

        name = f"{HUGGING_FACE}, {kind}, {threads}"
        for batch in batches:
            cases[batch, name] = functools.partial(step, torch.from_numpy(ids(*batch)).long())
        for prompt in prompts:
            cases[prompt, name] = functools.partial(write, torch.from_numpy(ids(*prompt)).long())
    return cases


def measure_libraries(quick, limits):
    batches, prompts = (BATCHES[:1], PROMPTS[:1]) if quick else (BATCHES, PROMPTS)
    rows = []
    with contextlib.ExitStack() as stack:

        def start(function, threads, *arguments):
            path = f"benchmarks.language_models:{function}"
            return stack.enter_context(timing.Worker(path, batches, prompts, *arguments, threads=threads)).cases

        cases = start("our_cases", timing.cores()) | start("keras_hub_cases", timing.cores())
        for threads in sorted({1, timing.cores()}):
            cases |= start("torch_cases", threads, threads)
        for kind, sizes in (("training", batches), ("writing", prompts)):
            for size in sizes:
                runs = {name: run for (of_size, name), run in cases.items() if of_size == size}
                rounds = timing.run_rounds(runs, OURS, **limits)
                tokens = size[0] * (size[1] if kind == "training" else WRITTEN)
                for name in runs:
                    ratio, spread = rounds.ratio(name, OURS)
                    speed = f"{tokens / rounds.median(name):,.0f}"
                    rows.append([f"{kind}, {size[0]} x {size[1]}", name, speed, f"{ratio:.2f} ± {spread:.0%}"])
                    print(*rows[-1], flush=True)
    return [
        "# Language models beside other libraries",
        f"A GPT-2 of {LAYERS} blocks of width {WIDTH} with {HEADS} heads and {VOCABULARY:,} tokens, float32, without "
        f"dropout. Training: AdamW, gradients clipped to norm 1. Writing: {WRITTEN} tokens, greedy, after prompts. "
        "Time is that of a step or a call, relative to this library's; above 1 is slower.",
        timing.table(["", "", "tokens/s", "time"], rows),
    ]


def memory_step(name, quick):
    """Returns a training step of GPT-2 small, or with `quick` of a tiny one, on `OF_MEMORY` tokens."""
    rows, length = (2, 128) if quick else OF_MEMORY
    tokens, layers = ids(rows, length + 1, LARGE_VOCABULARY), 1 if quick else 12
    if name == KERAS_HUB:
        import keras_hub

        backbone = keras_hub.models.GPT2Backbone(LARGE_VOCABULARY, layers, 12, 768, 3_072, 0.0, POSITIONS)
        model = compiled_keras_hub(backbone)
        inputs = {"token_ids": tokens[:, :-1], "padding_mask": np.ones((rows, length), "bool")}
        return functools.partial(model.train_on_batch, inputs, tokens[:, 1:])
    from recipes.engine.config import override
    from recipes.lm.settings import LmConfig

    sizes = dict(size="gpt2", model_arguments={"num_layers": layers, **MEMORY[name]}, length=length)
    trainer, _ = our_trainer(override(LmConfig(), sizes), LARGE_VOCABULARY)
    return training_step(trainer, tokens)


def megabytes(module, name, quick):
    """Returns the megabytes of a step, measured in a process of its own."""
    command = [sys.executable, "-m", module, "memory", *["--quick"] * quick, "--case", name]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20), "TF_ENABLE_ONEDNN_OPTS": "0"}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    print(name, run.stdout.splitlines()[-1], flush=True)
    return float(run.stdout.splitlines()[-1])


def print_memory(step):
    """Prints the megabytes of a step, after one that compiles it."""
    step()
    print(timing.memory(step))


def memory_table(module, names, reference, quick):
    """Returns a table of the memory of a module's steps, and as shares of that of one of them."""
    measured = {name: megabytes(module, name, quick) for name in names}
    rows = [[name, f"{most:,.0f}", f"{most / measured[reference]:.2f}"] for name, most in measured.items()]
    return timing.table(["", "MB", f"to {reference}"], rows)


def measure_memory(quick, limits):
    return [
        "# Memory of language models",
        f"A training step of GPT-2 small on {OF_MEMORY[0]} x {OF_MEMORY[1]} tokens, float32, AdamW: the most "
        "memory that it needs above weights, moments and data.",
        memory_table("benchmarks.language_models", (*MEMORY, KERAS_HUB), KERAS_HUB, quick),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("libraries", "memory"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="few cases, three rounds; writes nothing")
    options = parser.parse_args()
    limits = dict(min_rounds=3, max_rounds=3) if options.quick else dict(max_rounds=15, max_seconds=90)
    if options.case:
        return print_memory(memory_step(options.case, options.quick))
    measure = {"libraries": measure_libraries, "memory": measure_memory}[options.part]
    paragraphs = measure(options.quick, limits)
    packages = ["tensorflow", "keras", "keras-hub"] + ["torch", "transformers"] * (options.part == "libraries")
    paragraphs += [timing.SPREAD] * (options.part == "libraries") + ["\n".join(timing.machine(*packages))]
    name = {"libraries": "language_models", "memory": "language_model_memory"}
    timing.report(None if options.quick else name[options.part], *paragraphs)


if __name__ == "__main__":
    main()
