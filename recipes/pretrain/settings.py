"""The settings of pre-training an encoder."""

import dataclasses

import keras

from keras_headattn.layers import ATTENTIONS
from keras_headattn.models import MODERNBERT_SIZES, Bert, ElectraPretraining, ModernBert
from keras_headattn.optimizers import AdamWeightDecay
from recipes.engine.config import option, settings
from recipes.engine.data import named_apart, named_files
from recipes.engine.settings import NamedSizes, Settings, model_arguments, optimizer_arguments

# Sizes of the encoder, ELECTRA's discriminator: Clark et al. 2020, table 6; `tiny` is for tests. `modernbert_base` is a
# `ModernBert` (Warner et al. 2024) for masked_lm, with the word pieces of the others.
SIZES = {
    "tiny": dict(num_layers=2, hidden_dim=64, intermediate_dim=256, num_heads=4, embedding_dim=32),
    "small": dict(num_layers=12, hidden_dim=256, intermediate_dim=1024, num_heads=4, embedding_dim=128),
    "base": dict(num_layers=12, hidden_dim=768, intermediate_dim=3072, num_heads=12, embedding_dim=768),
    "modernbert_base": dict(num_layers=22, hidden_dim=768, intermediate_dim=1152, num_heads=12),
}
MOST_WARMUP = 10_000
HELD_OUT = "held_out"  # the name of the test set that is a part of the records
ENDING = "[.][a-z]+"  # of a test set's file, which its name lacks
OBJECTIVES = ("electra", "masked_lm")


@settings()
class Data:
    """The text, its vocabulary, and the sequences that it is packed to."""

    title = "data"

    train: tuple[str, ...] = option(
        (),
        "text to train on: files, folders of them, or tar archives of documents such as OpenWebText's; .gz, .xz too",
        metavar="PATH",
    )
    whole_files: bool = option(
        False, "take each file as one document; otherwise empty lines end documents, but for files in archives"
    )
    built_in: bool = option(False, "train on synthetic data: documents of number words in twelve languages")
    records: str | None = option(
        None,
        "folder where the text is kept as sequences of tokens, made once for many runs; alone, one that is complete, "
        "or records that ELECTRA's program wrote; none: in the run's folder",
        metavar="FOLDER",
    )
    test: tuple[str, ...] = option(
        (),
        "text files to score on besides what is held out, each a test set named after it",
        changeable=True,
        metavar="FILE",
    )
    validation_sequences: int = option(
        2_048,
        "number of sequences held out for validation, at most a tenth of all, of which full batches are read",
        at_least=1,
    )
    vocabulary: str | None = option(
        None, "BERT's vocab.txt; none: word pieces are learnt from the text", metavar="FILE"
    )
    vocabulary_size: int = option(30_522, "largest number of word pieces to learn", at_least=64)
    vocabulary_lines: int = option(
        1_000_000, "number of lines, drawn at random, from which word pieces are learnt", at_least=1
    )
    lowercase: bool = option(True, "convert all text to lower case, without accents; --no-lowercase: keep it as it is")
    max_length: int = option(128, "number of tokens of a sequence, with special ones", at_least=8)
    packing_seed: int = option(
        0, "random seed of the lengths of sequences and segments, and of --vocabulary-lines", at_least=0
    )
    shard_characters: int = option(2**24, "characters of text in a shard of the records", at_least=1)
    processes: int | None = option(
        None, "number of processes that write records; none: one for each core", changeable=True, at_least=1
    )
    batch_size: int = option(128, "sequences in a batch, over all replicas", at_least=1)


@settings()
class Model:
    """The encoder that is pre-trained, and what it learns by."""

    title = "model"

    objective: str = option(
        "electra",
        "task of pre-training; electra: a small generator fills in masked tokens, and the encoder finds those "
        "that it replaced; masked_lm: "
        "the encoder fills in masked tokens",
        OBJECTIVES,
    )
    size: str = option("small", "named size of the encoder", tuple(SIZES))
    model_arguments: dict = model_arguments(ElectraPretraining, Bert, ModernBert, generator_share=None)
    generator_attention: str = option(
        "multi_head", "attention layer of the generator, with --objective electra", tuple(ATTENTIONS)
    )
    generator_attention_arguments: dict = option(
        {}, "arguments of the generator's attention layer, such as sliding_window=2"
    )


@settings(
    epochs=option(20, "epochs of --epoch-steps; the learning rate is 0 after the last one", at_least=1),
    patience=None,
    average_of="last",
    learning_rate=5e-4,
    repulsive_arguments=dict(step_size=0.01, repulsive_weight=0.1, select="(discriminator|masked_lm)/.*block_0/"),
    run="runs/pretrain",
    export=option(
        None,
        "folder that gets the encoder and the generator as Hugging Face has them; {run}: the name of the run's folder",
        changeable=True,
        metavar="FOLDER",
    ),
)
class PretrainConfig(Data, Model, NamedSizes, Settings):
    """Every setting of a run. The defaults are those of ELECTRA-small (Clark et al. 2020, table 6), but for the steps.

    Those of repulsion are of An et al. 2020, appendix B.2.4.
    """

    title = "training"
    SIZES = SIZES
    SOURCES = ("train", "built_in", "records")  # `records` alone; beside another source it is a destination
    MOST_USED = (
        "train", "vocabulary", "lowercase", "objective", "size", "max_length", "batch_size", "epoch_steps",
        *Settings.MOST_USED,
    )  # fmt: skip

    epoch_steps: int = option(1_000, "steps of an epoch, after which the model is validated and saved", at_least=1)
    warmup_steps: int | None = option(
        None,
        f"updates of linear warm-up; the rate decays linearly all along; none: {MOST_WARMUP:,}, but at most a tenth of "
        "all steps",
        at_least=0,
    )
    optimizer_arguments: dict = optimizer_arguments([AdamWeightDecay, keras.optimizers.Optimizer], global_clipnorm=1.0)

    def check(self):
        is_modern = self.size in MODERNBERT_SIZES
        if is_modern and self.objective == "electra":
            raise ValueError(f"--size {self.size} needs --objective masked_lm. Received: objective={self.objective!r}")
        positions = self.model_argument("max_length")
        if not is_modern and 0 < positions < self.max_length:
            raise ValueError(
                "--max-length must be at most the positions that have embeddings, max_length of --model-arguments. "
                f"Received: {self.max_length} for {positions}"
            )
        if self.batches_per_update * (self.warmup_steps or 0) >= self.total_steps:
            raise ValueError(
                "--warmup-steps must be fewer than all updates. Received: "
                f"warmup_steps={self.warmup_steps} of {self.epochs} epochs of {self.epoch_steps} steps, "
                f"{self.batches_per_update} an update"
            )

    @property
    def source(self):
        if self.records and (self.train or self.built_in):
            return dataclasses.replace(self, records=None).source
        return super().source

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        return [HELD_OUT, *named_apart(named_files(self.test, ENDING), [HELD_OUT])]

    @property
    def total_steps(self):
        """int, steps of all epochs."""
        return self.epochs * self.epoch_steps

    @property
    def records_folder(self):
        """Folder of the records."""
        return self.records or f"{self.run}/records"

    @property
    def description(self):
        return f"{self.objective}, {self.size}, {super().description}"
