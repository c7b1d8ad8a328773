"""Pre-training of an encoder, its scores and its checkpoints."""

import dataclasses
import json
import types

from keras_headattn._files import write_atomically
from keras_headattn.data import Records
from keras_headattn.optimizers import AdamWeightDecay, LinearDecay
from keras_headattn.training import HeadDistances, HeadStatistics
from recipes.engine.data import Corpora, check_batch_size, named_apart
from recipes.engine.encoders import saved_tokenizer
from recipes.engine.modelling import fitting_warmup, make_attention, make_optimizer
from recipes.engine.records import fingerprint_of, is_complete
from recipes.pretrain.batches import SequenceBatches, read_held_out
from recipes.pretrain.data import MaskedSequences, number_held_out, read_tests
from recipes.pretrain.documents import Documents
from recipes.pretrain.export import write
from recipes.pretrain.modelling import make_pretraining, make_trainer
from recipes.pretrain.prepare import TOKENIZER, keep_tokenizer, prepare, tokenizer_of
from recipes.pretrain.settings import HELD_OUT, MOST_WARMUP

# Logs that lines of epochs do not show: of training all but the loss, and of validation the second group.
OF_TRAINING = "generator_loss", "masked_accuracy", "detection_auc"
OF_BOTH = "discriminator_loss", "sampled_accuracy", "replaced_share"
OF_BOTH += "detection_accuracy", "detection_precision", "detection_recall"
DETAILS = (*OF_TRAINING, *OF_BOTH, *(f"val_{name}" for name in OF_BOTH))


def train(config, session):
    """Pre-trains an encoder, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        run.read(lambda: check_text(config), lambda _: fingerprint(config))
        records, tokenizer = run.once(lambda: write_data(run, config))
        held_out = read_held_out(records, number_held_out(records, config))
        tests = {HELD_OUT: held_out} | named_apart(read_tests(config, tokenizer, config.test), [HELD_OUT])
        if run.is_unfinished():
            fit(run, records, held_out, tokenizer)
        run.report(lambda model: score(run, config, model, tests))
        run.export(lambda model, folder: write(run, config, model, folder))
        run.close([next_command(config)])


def check(config):
    """Makes attention, model and optimizer, thrown away: wrong settings are reported before data are read."""
    make_attention(config, config.shape["hidden_dim"], config.shape["num_heads"])
    # The generator has its own arguments and number of heads, whatever its width.
    of_generator = dataclasses.replace(config, attention_arguments={}, num_heads=None)
    make_attention(of_generator, 64, 1, "generator_attention")
    if len(config.model_arguments) > 1:
        make_pretraining(config, types.SimpleNamespace(vocabulary_size=8, mask_id=4, bos_id=2, eos_id=3))
    pretraining_optimizer(config)


def check_text(config):
    """Opens the text, unless its records are complete; returns `Corpora` that name the test set held out of them."""
    if config.train and not is_complete(config.records_folder):
        Documents(config.train).check()
    return Corpora(None, None, {HELD_OUT: None})


def fingerprint(config):
    """Returns the size and a checksum of the records; nothing before there are some."""
    folder = config.records_folder
    return {"training": fingerprint_of(Records(folder))} if is_complete(folder) else {}


def write_data(run, config):
    """Returns the `Records` of the text and the tokenizer that the run keeps, which are written if need be."""
    records = prepare(config, checksums=False)
    tokenizer = keep_tokenizer(run, tokenizer_of(records))
    run.claim_data(fingerprint(config))
    return records, tokenizer


def warmup_steps(config):
    """Returns the steps in which the learning rate rises."""
    return fitting_warmup(config, MOST_WARMUP, config.total_steps)


def pretraining_optimizer(config):
    """Returns the optimizer."""
    schedule = LinearDecay(config.learning_rate, warmup_steps(config), config.total_steps, decay_in_warmup=True)
    return make_optimizer(config, AdamWeightDecay, learning_rate=schedule)


def fit(run, records, held_out, tokenizer):
    """Trains on records, without the sequences that are held out for validation."""
    config = run.config
    check_batch_size(config.batch_size, run.num_replicas)
    num_held_out = number_held_out(records, config)
    batches = SequenceBatches(records, config.batch_size, config.epoch_steps, num_held_out, config.seed)
    validation = MaskedSequences(held_out, config.batch_size)
    print(f"{tokenizer.vocabulary_size:,} word pieces")

    def trainer(model):
        validation.model = result = make_trainer(model)
        if run.num_replicas > 1:  # each has a part of a batch, and divides by counts of the whole
            batches.preprocess = validation.preprocess = result.with_counts
        return result

    def reports(model):
        distances = HeadDistances(select=config.repulsive_arguments["select"] or "")
        return [distances] if distances.applies_to(model) else []

    run.fit(
        batches,
        validation,
        lambda: run.load_pruned() or make_pretraining(config, tokenizer),
        trainer=trainer,
        optimizer=lambda model: pretraining_optimizer(config),
        loss=None,  # the model has its own
        throughput=(lambda: batches.num_tokens, "tokens_per_second"),
        reports=reports,
        shown=lambda model: [HeadStatistics(run.log_dir)],
        details=DETAILS,
        warmup=warmup_steps(config),
    )


def evaluate(run, config, files=None):
    """Scores a finished run on text files, or for `None` on its own test sets."""
    tests = read_tests(config, saved_tokenizer(run.folder / TOKENIZER), config.test if files is None else files)
    tests = named_apart(tests, [HELD_OUT] if files is None else config.names_of_tests)
    if files is None and is_complete(config.records_folder):
        run.check_data(fingerprint(config))
        records = Records(config.records_folder)
        tests[HELD_OUT] = read_held_out(records, number_held_out(records, config))
    if not tests:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests):
    """Masks the tokens of test sets, prints the scores, and writes them."""
    model.compile()
    for name, rows in tests.items():
        sequences = MaskedSequences(rows, config.batch_size, model)
        scores = model.evaluate(sequences.dataset(), verbose=0, return_dict=True)
        write_atomically(run.results / name / "scores.json", json.dumps(scores, indent=1).encode("utf-8"))
        print(f"{name}, {len(rows['token_ids']):,} sequences")
        for measure, value in scores.items():
            print(f"  {measure:<20} {value:.4f}")


def next_command(config):
    """Returns the command that fine-tunes a run."""
    task = "language" if config.built_in else "cola --glue GLUE"
    return f"python -m recipes.glue --task {task} --checkpoint {config.run}"
