"""Training of an encoder that answers questions, its scores and its SavedModel."""

import keras

from keras_headattn.data import LabelledBatches, choose_buckets, example_lengths
from keras_headattn.models import SpanAnswerer
from keras_headattn.serving import export_question_answerer, write_examples
from keras_headattn.text import QuestionWindows
from recipes.answer.data import read_corpora, read_tests
from recipes.answer.predicting import (
    answers_to,
    fitted_threshold,
    make_answerer,
    score_of,
    window_arguments,
    write_answers,
)
from recipes.engine import lora
from recipes.engine.data import fingerprint
from recipes.engine.encoders import (
    check_encoder,
    fine_tuning_optimizer,
    make_encoder,
    make_tokenizer,
    saved_tokenizer,
    warmup_steps,
    with_reduction,
)
from recipes.engine.exporting import packages_of, smoke_test
from recipes.engine.modelling import column_trainer

SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
rows = zip(found["answers"].numpy(), found["scores"].numpy(), found["has_answer"].numpy())
result = [f"{names[0].decode()} ({scores[0]:.3f})" if has_answer else "no answer" for names, scores, has_answer in rows]
"""


def train(config, session):
    """Trains an encoder to answer, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        questions = run.read(lambda: read_corpora(config))
        texts = [text for row in questions.train.rows for text in (row.question, row.context)]
        tokenizer = run.once(lambda: make_tokenizer(run, config, lambda: texts))
        if run.is_unfinished():
            fit(run, questions, tokenizer)
        run.report(lambda model: score(run, config, model, questions.tests, questions))
        run.export(lambda model, folder: write(run, config, model, folder, questions))
        run.close([f"python -m recipes.answer predict {config.run} FILE"])


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    check_encoder(config)
    if config.size:
        make_model(config, 8)
    fine_tuning_optimizer(config, 1)


def fit(run, questions, tokenizer):
    """Trains on windows of contexts, whose labels are the first and the last piece of an answer."""
    config = run.config
    (train, labels), (validation, true) = (
        encode(part, tokenizer, config) for part in (questions.train, questions.validation)
    )
    buckets = choose_buckets(example_lengths(train), config.num_buckets)
    longest = int(example_lengths(validation).max())
    common = dict(batch_size=config.batch_size, num_replicas=run.num_replicas, seed=config.seed)
    common["pad_id"] = tokenizer.pad_id
    batches = LabelledBatches(train, labels, bucket_lengths=buckets, training=True, **common)
    lengths = (*buckets, longest) if longest > buckets[-1] else buckets
    held_out = LabelledBatches(validation, true, bucket_lengths=lengths, **common)
    print(
        f"{len(labels):,} windows of {len(questions.train):,} questions, {(labels[:, 1] > 0).mean():.0%} with an "
        f"answer, {tokenizer.vocabulary_size:,} pieces"
    )

    def model():
        network = run.load_pruned() or make_model(config, tokenizer.vocabulary_size)
        lora.adapt(network.encoder, config)
        return network

    run.fit(
        batches,
        held_out,
        model,
        trainer=lambda model: column_trainer(
            batches.columns, lambda x: model(x if len(x) > 1 else next(iter(x.values())))
        ),
        optimizer=lambda model: fine_tuning_optimizer(config, len(batches), model.encoder.num_layers),
        loss=with_reduction(SpanLoss(), config),
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        throughput=(lambda: batches.num_examples, "windows_per_second"),
        warmup=warmup_steps(config, len(batches)),
        merge=lambda model: lora.merge(model, config),
    )


def make_model(config, vocabulary_size):
    """Returns an encoder of the settings with a head for first and last pieces."""
    encoder, _, _ = make_encoder(config, vocabulary_size, SpanAnswerer)
    model = SpanAnswerer(encoder)
    model.build()
    return model


class SpanLoss(keras.losses.Loss):
    """Mean of the cross-entropies of an answer's first and last piece, a number a row."""

    def call(self, y_true, y_pred):
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return keras.ops.mean(losses, axis=-1)


def encode(questions, tokenizer, config):
    """Returns the inputs of the model and its labels, a row for each window of `Questions`."""
    windows = QuestionWindows(tokenizer, config.max_length, config.stride, config.max_question_length)
    sides = ([getattr(row, side) for row in questions.rows] for side in ("question", "context"))
    return windows.encode(*sides, list(map(span_of, questions.rows)))


def span_of(row):
    """Returns the first character of a question's first answer and the one after its last; `None` for no answer."""
    if not row.answers:
        return None
    text, start = row.answers[0]
    return start, start + len(text)


def load_answerer(run, config, model, top=1, questions=None):
    """Returns the `QuestionAnswerer` of a run, with its threshold; see `threshold_of`."""
    tokenizer = saved_tokenizer(run.folder / "tokenizer.json")
    return make_answerer(config, model, tokenizer, threshold_of(run, config, model, questions), top)


def threshold_of(run, config, model, questions=None):
    """Returns the score above which there is no answer, fitted on the validation set; `None` if all have one.

    `questions` are the `Corpora` of the settings, which are read if need be.
    """

    def fit():
        validation = (questions or read_corpora(config)).validation
        if all(row.answers for row in validation.rows):
            return None
        answerer = make_answerer(config, model, saved_tokenizer(run.folder / "tokenizer.json"))
        return score_of(answers_to(answerer, validation, config.quiet), validation)["best_f1_thresh"]

    return fitted_threshold(run.folder / "threshold.json", len(run.history()), fit)


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    if files is not None:
        tests = read_tests(config, files)
    else:
        questions = read_corpora(config)
        if config.data == "train" and not (config.validation_files or config.test):  # a share of the training set
            run.check_data(fingerprint(questions))
        tests = questions.tests
    tests = run.name_results(config, tests, ("max_answer_length",), files)
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests, questions=None):
    """Answers the questions of test sets, prints scores, and writes them with the answers."""
    answerer = load_answerer(run, config, model, questions=questions)
    for name, test in tests.items():
        answers = answers_to(answerer, test, config.quiet)
        scores = score_of(answers, test, answerer.threshold)
        write_answers(run.results / name, answers, scores)
        print(f"{name}: " + ", ".join(f"{measure} {value:.2f}" for measure, value in scores.items()))


def write(run, config, model, folder, questions=None):
    """Writes a SavedModel, and tries it on some questions of a test set if there are any."""
    tokenizer = saved_tokenizer(run.folder / "tokenizer.json")
    arguments = dict(threshold=threshold_of(run, config, model, questions), run=config.run, **config.export_arguments)
    path = export_question_answerer(model, tokenizer, folder, **window_arguments(config), **arguments)
    if not (questions and config.samples):
        return
    rows = next(iter(questions.tests.values()), questions.validation).sample(config.samples, config.seed).rows
    write_examples(path, [{"question": row.question, "context": row.context} for row in rows])
    inputs = {side: [getattr(row, side) for row in rows] for side in ("question", "context")}
    for row, answer in zip(rows, smoke_test(path, SMOKE_TEST, inputs, *packages_of(tokenizer)), strict=True):
        truth = " | ".join(dict.fromkeys(text for text, _ in row.answers)) or "no answer"
        print(f"  {row.question} {row.context}\n    -> {answer}, labelled {truth}")
