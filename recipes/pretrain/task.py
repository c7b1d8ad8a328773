"""Pre-training of encoders."""

import dataclasses
import json
import types

from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn._files import read_json, write_atomically
from keras_headattn.data import Records
from keras_headattn.optimizers import AdamWeightDecay, LinearDecay
from keras_headattn.training import HeadDistances, HeadNorms
from recipes.engine.heads import make_attention
from recipes.engine.optimizer import make_optimizer
from recipes.engine.proportions import fitting_warmup
from recipes.engine.records import fingerprint_of, is_complete
from recipes.engine.task import Corpora, Task, check_batch_size, named_apart
from recipes.pretrain.batches import SequenceBatches, read_held_out
from recipes.pretrain.data import MaskedSequences, number_held_out, read_tests
from recipes.pretrain.documents import Documents
from recipes.pretrain.export import export_pretrained
from recipes.pretrain.modelling import make_pretraining, make_trainer
from recipes.pretrain.prepare import prepare, tokenizer_of
from recipes.pretrain.settings import MOST_WARMUP

HELD_OUT = "held_out"  # the name of this test set
TOKENIZER = "tokenizer.json"
# Logs that lines of epochs do not show: of training all but the loss, and of validation the second group.
OF_TRAINING = ("generator_loss", "masked_accuracy", "detection_auc")
DETAILS = (
    "discriminator_loss",
    "sampled_accuracy",
    "replaced_share",
    "detection_accuracy",
    "detection_precision",
    "detection_recall",
)


class Pretrain(Task):
    """Encoder, with what it is pre-trained by, and its word pieces."""

    details = (*OF_TRAINING, *DETAILS, *(f"val_{name}" for name in DETAILS))

    def check(self):
        shape = self.config.shape
        make_attention(self.config, shape["hidden_dim"], shape["num_heads"])
        # The generator has its own arguments and number of heads, whatever its width.
        of_generator = dataclasses.replace(self.config, attention_arguments={}, num_heads=None)
        make_attention(of_generator, 64, 1, "generator_attention")

    def try_model(self):
        if len(self.config.model_arguments) > 1:
            make_pretraining(self.config, types.SimpleNamespace(vocabulary_size=8, mask_id=4, bos_id=2, eos_id=3))

    def load(self):
        config = self.config
        if config.train and not is_complete(config.records_folder):
            Documents(config.train).check()
        self.data = Corpora(None, None, {HELD_OUT: None})  # read when there are records

    def fingerprint(self):
        """None before there are records."""
        folder = self.config.records_folder
        return {"training": fingerprint_of(Records(folder))} if is_complete(folder) else {}

    def prepare(self):
        if self.data:
            self.write_tokenizer(tokenizer_of(prepare(self.config, checksums=False)))
            self.run.claim_data(self.fingerprint())
        self.tokenizer = self._read_tokenizer()
        if self.data:
            self.data.tests.update(self._read_tests(self.config.test))

    def _read_tests(self, files):
        config = self.config
        return read_tests(files, self.tokenizer, config.max_length, config.packing_seed, config.whole_files)

    def _number_held_out(self, records):
        return number_held_out(records, self.config.validation_sequences, self.config.batch_size)

    def write_tokenizer(self, tokenizer):
        """Keeps the tokenizer in the run's folder, so that it needs no records later.

        A run that has another already is a `ValueError`.
        """
        path = self.run.folder / TOKENIZER
        if path.exists():
            there = self._read_tokenizer()
            if (there.vocabulary, there.lowercase) != (tokenizer.vocabulary, tokenizer.lowercase):
                raise ValueError(
                    "The run was begun with another vocabulary than the records have. Give another --run. "
                    f"Received: {path}"
                )
            return
        write_atomically(path, json.dumps(serialize_keras_object(tokenizer)).encode("utf-8"))

    def _read_tokenizer(self):
        return deserialize_keras_object(read_json(self.run.folder / TOKENIZER))

    def make_batches(self, num_replicas):
        config = self.config
        check_batch_size(config.batch_size, num_replicas)
        records = Records(config.records_folder)
        number = self._number_held_out(records)
        self.data.tests[HELD_OUT] = rows = read_held_out(records, number)
        self.batches = SequenceBatches(records, config.batch_size, config.epoch_steps, number, config.seed)
        self.validation = MaskedSequences(rows, config.batch_size)
        self.num_replicas = num_replicas
        print(f"{self.tokenizer.vocabulary_size:,} word pieces")
        return self.batches, self.validation

    def make_model(self):
        return make_pretraining(self.config, self.tokenizer)

    def make_trainer(self, model):
        trainer = make_trainer(model)
        self.validation.model = trainer
        if self.num_replicas > 1:  # each has a part of a batch, and divides by counts of the whole
            self.batches.preprocess = self.validation.preprocess = trainer.with_counts
        return trainer

    def warmup(self, steps):
        return fitting_warmup(self.config.warmup_steps, MOST_WARMUP, self.config.total_steps)

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        schedule = LinearDecay(config.learning_rate, self.warmup(steps), config.total_steps, decay_in_warmup=True)
        return make_optimizer(config, AdamWeightDecay, learning_rate=schedule)

    def make_loss(self):
        return None  # the model has its own

    def throughput(self, batches):
        return lambda: batches.num_tokens, "tokens_per_second"

    def reports(self, model, batches):
        distances = HeadDistances(select=self.config.repulsive_arguments["select"] or "")
        return [distances] if distances.applies_to(model) else []

    def shown(self, model, batches, validation):
        return [HeadNorms(self.run.log_dir)]

    def load_tests(self, files=None):
        if files is not None:
            return named_apart(self._read_tests(files), [HELD_OUT, *self.run.read_config().test])
        own = self.run.read_config()
        tests = self._read_tests(own.test)
        if is_complete(own.records_folder):
            self.run.check_data(self.fingerprint())
            records = Records(own.records_folder)
            tests[HELD_OUT] = read_held_out(records, self._number_held_out(records))
        return tests

    def next_commands(self):
        task = "language" if self.config.embedded else "cola --glue GLUE"
        return [f"python -m recipes.glue --task {task} --checkpoint {self.config.run}"]

    def evaluate(self, model, tests):
        model.compile()
        for name, rows in tests.items():
            sequences = MaskedSequences(rows, self.config.batch_size)
            sequences.model = model
            scores = model.evaluate(sequences.dataset(), verbose=0, return_dict=True)
            folder = self.run.results / name
            write_atomically(folder / "scores.json", json.dumps(scores, indent=1).encode("utf-8"))
            print(f"{name}, {len(rows['token_ids']):,} sequences")
            for measure, value in scores.items():
                print(f"  {measure:<20} {value:.4f}")

    def export(self, model, folder):
        export_pretrained(model, self.tokenizer, folder, self.config.run)
