"""Fine-tuning of an encoder that answers questions."""

import keras

from keras_headattn.data import LabelledBatches, choose_buckets, example_lengths
from keras_headattn.models import SpanAnswerer
from keras_headattn.serving import export_question_answerer, write_examples
from keras_headattn.text import QuestionWindows
from recipes.answer.data import read_corpora, read_tests
from recipes.answer.predicting import WINDOWS, answers_to, fitted_threshold, make_answerer, score, write_answers
from recipes.engine.encoder_task import EncoderTask
from recipes.engine.encoders import make_encoder
from recipes.engine.fresh_process import packages_of, smoke_test
from recipes.engine.task import named_apart

SMOKE_TEST = """
found = call(**{name: tf.constant(values) for name, values in given.items()})
rows = zip(found["answers"].numpy(), found["scores"].numpy(), found["has_answer"].numpy())
result = [f"{names[0].decode()} ({scores[0]:.3f})" if has_answer else "no answer" for names, scores, has_answer in rows]
"""


class SpanLoss(keras.losses.Loss):
    """Mean of the cross-entropies of an answer's first and last piece, a number a row."""

    def call(self, y_true, y_pred):
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return keras.ops.mean(losses, axis=-1)


class Answering(EncoderTask):
    """Encoder that finds the first and the last piece of an answer."""

    page = False

    def make_head(self, vocabulary_size):
        encoder, _, _ = make_encoder(self.config, vocabulary_size, SpanAnswerer)
        return SpanAnswerer(encoder)

    def load(self):
        self.data = self.corpora or read_corpora(self.config)

    def texts(self):
        return [text for row in self.data.train.rows for text in (row.question, row.context)]

    def prepare(self):
        self.tokenizer = self.make_tokenizer()

    def encode(self, questions):
        """Returns the inputs of the model and its labels, a row for each window of `Questions`."""
        config = self.config
        windows = QuestionWindows(self.tokenizer, config.max_length, config.stride, config.max_question_length)
        rows = questions.rows
        sides = ([getattr(row, side) for row in rows] for side in ("question", "context"))
        return windows.encode(*sides, [_span(row) for row in rows])

    def make_batches(self, num_replicas):
        config = self.config
        (train, labels), (validation, true) = map(self.encode, (self.data.train, self.data.validation))
        buckets = choose_buckets(example_lengths(train), config.num_buckets)
        longest = int(example_lengths(validation).max())
        common = dict(batch_size=config.batch_size, num_replicas=num_replicas, seed=config.seed)
        common["pad_id"] = self.tokenizer.pad_id
        self.batches = LabelledBatches(train, labels, bucket_lengths=buckets, training=True, **common)
        lengths = (*buckets, longest) if longest > buckets[-1] else buckets
        held_out = LabelledBatches(validation, true, bucket_lengths=lengths, **common)
        print(
            f"{len(labels):,} windows of {len(self.data.train):,} questions, {(labels[:, 1] > 0).mean():.0%} with an "
            f"answer, {self.tokenizer.vocabulary_size:,} pieces"
        )
        return self.batches, held_out

    def make_loss(self):
        return self.with_reduction(SpanLoss())

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def throughput(self, batches):
        return lambda: batches.num_examples, "windows_per_second"

    def load_tests(self, files=None):
        config = self.config
        if files is not None:
            return named_apart(read_tests(config, files), self.run.config().names_of_tests)
        if config.data == "train" and not (config.validation_files or config.test):  # a share of the training set
            self.load()
            self.run.check_data(self.fingerprint())
            tests, self.data = self.data.tests, None
        else:
            tests = read_corpora(config).tests
        return self.name_results(tests, ("max_answer_length",))

    def threshold(self, model):
        """Returns the score above which there is no answer, fitted on the validation set; `None` if all have one."""

        def fit():
            validation = (self.data or read_corpora(self.config)).validation
            if all(row.answers for row in validation.rows):
                return None
            answers = answers_to(make_answerer(self.config, model, self.tokenizer), validation, self.config.quiet)
            return score(answers, validation)["best_f1_thresh"]

        return fitted_threshold(self.run.folder / "threshold.json", len(self.run.history()), fit)

    def answerer(self, model, top=1):
        """Returns the `QuestionAnswerer` of the run, with its threshold."""
        return make_answerer(self.config, model, self.tokenizer, self.threshold(model), top)

    def evaluate(self, model, tests):
        answerer = self.answerer(model)
        for name, questions in tests.items():
            answers = answers_to(answerer, questions, self.config.quiet)
            scores = score(answers, questions, answerer.threshold)
            write_answers(self.run.results / name, answers, scores)
            print(f"{name}: " + ", ".join(f"{measure} {value:.2f}" for measure, value in scores.items()))

    def export(self, model, folder):
        config = self.config
        sizes = {name: getattr(config, name) for name in WINDOWS}
        path = export_question_answerer(
            model,
            self.tokenizer,
            folder,
            **sizes,
            threshold=self.threshold(model),
            run=config.run,
            **config.export_arguments,
        )
        if self.data and config.samples:
            self._try(path, next(iter(self.data.tests.values()), self.data.validation))

    def _try(self, path, questions):
        rows = questions.sample(self.config.samples, self.config.seed).rows
        write_examples(path, [{"question": row.question, "context": row.context} for row in rows])
        given = {side: [getattr(row, side) for row in rows] for side in ("question", "context")}
        tried = smoke_test(path, SMOKE_TEST, given, *packages_of(self.tokenizer))
        for row, found in zip(rows, tried, strict=True):
            truth = " | ".join(dict.fromkeys(text for text, _ in row.answers)) or "no answer"
            print(f"  {row.question} {row.context}\n    -> {found}, labelled {truth}")

    def next_commands(self):
        return [f"python -m recipes.answer predict {self.config.run} FILE"]


def _span(row):
    """Returns the first character of a question's first answer and the one after its last; `None` for no answer."""
    if not row.answers:
        return None
    text, start = row.answers[0]
    return start, start + len(text)
