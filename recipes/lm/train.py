"""Training of a language model, and its scores."""

import functools
import re
import warnings

import keras

from keras_headattn.analysis import attention_maps
from keras_headattn.data import RowBatches
from keras_headattn.interop import from_pretrained
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import CausalLM
from keras_headattn.serving import export_generator, write_examples
from keras_headattn.training import HeadStatistics
from recipes.engine.config import passing_on
from recipes.engine.data import check_batch_size, named_apart
from recipes.engine.encoders import kept_tokenizer, saved_tokenizer
from recipes.engine.exporting import packages_of, smoke_test
from recipes.engine.modelling import (
    fitting_warmup,
    make_attention,
    make_head_regularizer,
    make_optimizer,
    token_trainer,
)
from recipes.lm.data import (
    check_characters,
    describe,
    make_tokenizer,
    read_corpora,
    read_tests,
    validation_tokens,
    write_files,
)
from recipes.lm.scoring import score_synthetic, score_task, score_text, write_scores, write_task
from recipes.lm.settings import MOST_WARMUP
from recipes.lm.synthetic import TASKS
from recipes.lm.tasks import read_tasks

TOKENIZER = "tokenizer.json"
INPUTS = "token_ids", "sequence_ids"  # of a model that is told which document a token is of
MOST_SHOWN = 256  # tokens whose attention is measured after each epoch
PROMPT_TOKENS, PROMPT = 64, 16  # tokens from which a prompt's words are taken, and its characters without words
WRITTEN = 200  # most tokens that a SavedModel writes
# One by one: some heads need prompts of equal length in a request.
SMOKE_TEST = """
found = [call(prompts=tf.constant([prompt]))["texts"] for prompt in given]
result = [texts.numpy()[0, 0].decode() for texts in found]
"""


def train(config, session):
    """Trains a language model, or goes on; then scores and exports it."""
    with warnings.catch_warnings(action="ignore"):  # `fit` warns
        check_heads(config, make_model(config, config.vocabulary_size))
    adam(config, 1)
    with session(config) as run:
        texts = run.read(lambda: read_corpora(config), describe)
        make = functools.partial(make_tokenizer, config, texts.train, texts.validation)
        tokenizer = run.once(lambda: kept_tokenizer(run.folder / TOKENIZER, make))
        check_characters(tokenizer, texts.tests, read_tasks(config.tasks, config.shots, config.seed))
        files = run.once(lambda: write_files(run, texts, tokenizer))
        if run.is_unfinished():
            fit(run, *files)
        run.report(lambda model: score(run, config, model, texts.tests))
        run.export(lambda model, folder: write(run, config, model, folder))
        run.close([f"python -m recipes.lm generate {config.run} --prompt TEXT"])


def make_model(config, vocabulary_size):
    """Returns a new model, or that of a checkpoint."""
    if config.checkpoint:
        return read_model(config)
    arguments = config.shape | config.model_arguments | {"vocabulary_size": vocabulary_size}
    if arguments.get("positions") == "learned":
        arguments["max_length"] = config.row_length
    of_attention = {"dropout": arguments.get("dropout", 0.0)} | arguments.pop("attention_arguments", {})
    attention = make_attention(config, arguments["hidden_dim"], arguments.pop("num_heads"), **of_attention)
    with passing_on("model_arguments"):
        return CausalLM(**arguments, attention=attention, seed=config.seed)


def read_model(config):
    """Returns the model of a checkpoint with the attention of the settings, which begins with its weights."""
    attention_arguments = dict(config.attention_arguments)
    regularizer = make_head_regularizer(config.attention_regularizer, config.attention_regularizer_arguments)
    if regularizer is not None:
        attention_arguments["head_regularizer"] = regularizer
    model = from_pretrained(
        config.checkpoint, config.attention, attention_arguments=attention_arguments, **config.model_arguments
    )
    if not isinstance(model, CausalLM):
        raise ValueError(
            "--checkpoint must be of a decoder-only model. "
            f"Received: {config.checkpoint}, which holds a {type(model).__name__}"
        )
    if model.position_count is not None and config.length > model.position_count:
        raise ValueError(
            f"--length must be at most the {model.position_count:,} positions of --checkpoint. "
            f"Received: {config.length}"
        )
    return model


def check_heads(config, model):
    """Checks that heads can tell the documents of a row apart, if they must."""
    if not config.separate_documents:
        return
    model.build()
    if not model.takes_documents:
        raise ValueError(
            "--separate-documents needs heads that tell documents of a row apart: leave it out, or give another "
            f"--attention. Received: attention={config.attention}"
        )


def fit(run, train, validation):
    """Trains on rows of the text."""
    config = run.config
    check_batch_size(config.batch_size, run.num_replicas)
    batches = rows(config, train, "training", seed=config.seed, epoch_steps=config.epoch_steps)
    held_out = rows(config, validation, "validation", shuffle=False)
    print(f"{train.vocabulary_size:,} different tokens")
    steps = config.epochs * len(batches)
    run.fit(
        batches,
        held_out,
        lambda: run.load_pruned() or make_model(config, train.vocabulary_size),
        trainer=functools.partial(token_trainer, columns=INPUTS if config.separate_documents else ()),
        optimizer=lambda model: adam(config, steps, model),
        loss=LabelSmoothedCrossentropy(0.0),
        throughput=(lambda: batches.num_tokens, "tokens_per_second"),
        shown=lambda model: [HeadStatistics(run.log_dir, attention_of_sample(held_out), run.folder / "heads.png")],
        warmup=warmup_steps(config, steps),
    )


def attention_of_sample(held_out):
    """Returns a function from the model to its attention in the first validation texts, of few tokens."""
    count = max(1, MOST_SHOWN // held_out.length)
    sample = keras.tree.map_structure(lambda ids: ids[:count, :MOST_SHOWN], held_out[0][0])
    return lambda model: attention_maps(model, sample)


def rows(config, tokens, name, **options):
    """Returns batches of rows of a token file."""
    length = config.row_length
    if config.rows == "stream" and len(tokens) <= config.batch_size * length:
        raise ValueError(
            f"The {name} text must fill the rows of a batch: give a longer one, or a smaller --length or --batch-size. "
            f"Received: {len(tokens):,} tokens for {config.batch_size} rows of {length}"
        )
    weights = TASKS[config.synthetic].weights if config.synthetic else None
    documents = config.rows, config.separate_documents
    return RowBatches(tokens, length, config.batch_size, *documents, weights=weights, **options)


def warmup_steps(config, steps):
    """Returns the steps in which the learning rate rises, of all steps."""
    return fitting_warmup(config, MOST_WARMUP, steps)


def adam(config, steps, model=None):
    """Returns the optimizer for so many steps; weights without a matrix of a model have no decay."""
    warmup = warmup_steps(config, steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warmup), config.final_rate, warmup_target=config.learning_rate, warmup_steps=warmup
    )
    optimizer = make_optimizer(config, keras.optimizers.AdamW, learning_rate=schedule, weight_decay=config.weight_decay)
    if model is not None:
        decayed = ("kernel", "embeddings")
        optimizer.exclude_from_weight_decay(
            var_list=[variable for variable in model.trainable_variables if variable.name not in decayed]
        )
    return optimizer


def evaluate(run, config, files=None):
    """Scores a finished run on text files, or for `None` on its own test sets, and on tasks."""
    if files and config.synthetic:
        raise ValueError(f"--test is for runs on texts. Received: {run.folder}, of the task {config.synthetic}")
    tests = read_tests(config, files, saved_tokenizer(run.folder / TOKENIZER))
    if not tests and not config.tasks:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    score(run, config, run.load_model(), run.name_results(config, tests, ("stride",)))


def score(run, config, model, tests):
    """Prints the scores of texts, or of the run's synthetic task, and of tasks, and writes them."""
    tasks = read_tasks(config.tasks, config.shots, config.seed)
    tasks = named_apart(tasks, [*run.read_config().names_of_tests, *tests])
    tokenizer = saved_tokenizer(run.folder / TOKENIZER)
    for name, corpus in tests.items():
        if config.synthetic:
            write_scores(run, name, score_synthetic(model, tokenizer, config, *corpus))
        else:
            write_scores(run, name, score_text(model, tokenizer, config, name, corpus))
    for name, items in run.name_results(config, tasks, ("shots",)).items():
        write_task(run, name, score_task(model, tokenizer, config, name, items))


def write(run, config, model, folder):
    """Writes a SavedModel, and lets it go on after words of the validation text."""
    tokenizer = saved_tokenizer(run.folder / TOKENIZER)
    path = export_generator(
        model, tokenizer, folder, config.run, attention=True, max_length=longest_text(model), temperature=0.8
    )
    if config.samples:
        prompts = prompts_of(validation_tokens(run, config, tokenizer), tokenizer, config.samples)
        write_examples(path, [{"prompts": prompt} for prompt in prompts])
        outputs = smoke_test(path, SMOKE_TEST, prompts, *packages_of(tokenizer))
        for prompt, text in zip(prompts, outputs, strict=True):
            print(f"  {prompt!r}\n    -> {text!r}")


def prompts_of(tokens, tokenizer, count):
    """Returns at most so many prompts of the first tokens: three words each, or characters of a text without words.

    Args:
        tokens: `TokenFile`.
        count: int.
    """
    text = tokenizer.detokenize(tokens.tokens[None, : PROMPT_TOKENS * count].astype("int32")).numpy()[0]
    text = text.decode("utf-8", "ignore")
    prompts = re.findall(r"(?:\S{1,20}\s+){3}", text)
    return (prompts or [text[i : i + PROMPT] for i in range(0, len(text), PROMPT)])[:count]


def longest_text(model):
    """Returns the largest number of tokens that a model writes: half of its positions, if they are learned."""
    return WRITTEN if model.position_count is None else min(WRITTEN, model.position_count // 2)
