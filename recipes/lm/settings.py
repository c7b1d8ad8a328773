"""The settings of a run of a language model."""

import keras

from keras_headattn.layers import ATTENTIONS, GraphAttention, ReAttention
from keras_headattn.models import CAUSAL_SIZES, CausalLM
from recipes.engine.config import option, settings
from recipes.engine.data import named_apart, named_files
from recipes.engine.settings import (
    ATTENTION,
    VALIDATION_SHARE,
    Files,
    NamedSizes,
    Settings,
    model_arguments,
    optimizer_arguments,
)
from recipes.lm.synthetic import TASKS

# Those with heads that `--attention` can replace.
SIZES = {
    name: arguments()
    for name, arguments in CAUSAL_SIZES.items()
    if arguments().get("attention") in (None, "multi_head")
}
CAUSAL = tuple(name for name, cls in ATTENTIONS.items() if not issubclass(cls, GraphAttention | ReAttention))
LEARNED = ("characters", "byte_pairs")  # tokenizers
KINDS = ("line", "blank_line", "file", "record")  # of documents
OF_CHECKPOINT = ("size", "tokenizer", "vocabulary_size", "num_heads")
MOST_WARMUP = 2_000
ENDING = "[.][a-z]+"  # of a test set's file, which its name lacks
VALIDATION = "validation"  # the name of the results of the validation set


@settings()
class Text(Files):
    """The text, its tokens, and their rows."""

    title = "data"

    train: tuple[str, ...] = option(
        (),
        'text to train on: files, .gz too, .jsonl of objects with "text", TFRecord files of "text", tar archives, '
        "folders of such files, or a token file, .bin",
        metavar="PATH",
    )
    validation: tuple[str, ...] = option(
        (),
        f"text files or a token file for validation, or a share of the end of --train; none: {VALIDATION_SHARE}",
        metavar="FILE",
    )
    built_in: bool = option(False, "train on synthetic data: counting in number words of twelve languages")
    synthetic: str | None = option(
        None,
        "synthetic task in place of a text: blocks, to find the one with two letters, or recall of pairs",
        tuple(TASKS),
    )
    documents: str | None = option(
        None,
        'unit of text that is a document: a line, lines up to a blank_line, a file, or a record, the "text" of a JSON '
        "line; none: record for .jsonl, else file",
        KINDS,
    )
    tokenizer: str = option(
        "characters",
        "kind of tokens: characters of the text, bytes, or byte_pairs learned from it; or a tokenizer.json of a run, "
        "of `prepare` or of a checkpoint, or a tokenizer.model of a checkpoint",
        metavar="FILE",
    )
    vocabulary_size: int = option(4_096, "largest number of tokens of --tokenizer byte_pairs", at_least=257)
    rows: str = option(
        "stream",
        "content of rows: a stream of all tokens, or documents, each row from the beginning of one, with some cut",
        ("stream", "documents"),
    )
    separate_documents: bool = option(False, "hide the documents of a row from each other")
    length: int = option(256, "number of tokens of a row", at_least=2)
    batch_size: int = option(32, "rows in a batch, over all replicas", at_least=1)
    epoch_steps: int | None = option(
        None,
        "number of steps of an epoch, after which the model is validated and saved; none: one pass over the text",
        at_least=1,
    )
    stride: int | None = option(
        None,
        "number of tokens scored in a window of --length when a text is scored; none: half of it",
        at_least=1,
        changeable=True,
    )
    tasks: tuple[str, ...] = option(
        (),
        "files or folders of tasks to score on, .jsonl of BLiMP or as llm-foundry has them",
        changeable=True,
        metavar="FILE",
    )
    shots: int = option(
        0, "number of other items with their answers before each item of a task", changeable=True, at_least=0
    )

    @property
    def marks_documents(self):
        """True if the tokenizer must have a token that begins or ends documents."""
        return self.rows == "documents" or self.separate_documents or self.documents not in (None, "file")

    @property
    def row_length(self):
        """Tokens of a row: examples of a synthetic task have their own length."""
        return TASKS[self.synthetic].length if self.synthetic else self.length

    def unused(self, given):
        of_texts = ("length", "stride", "documents", "rows", "separate_documents")
        reasons = dict.fromkeys(of_texts, "is for texts, not for --synthetic") if self.synthetic else {}
        files = (*self.train, *self.validation_files, *given.get("test", self.test))
        if files and all(str(file).endswith(".bin") for file in files):
            reasons["documents"] = "is for text files, not for token files"
        if self.tokenizer != "byte_pairs":
            reasons["vocabulary_size"] = "is for --tokenizer byte_pairs"
        return reasons if self.tasks else reasons | {"shots": "is for --tasks"}


@settings()
class Model:
    """The language model."""

    title = "model"

    size: str = option(
        "nano_cpu",
        "named size of the model; its vocabulary and number of positions follow from the data",
        tuple(SIZES),
    )
    checkpoint: str | None = option(
        None,
        "folder of a pre-trained model in Hugging Face's format, to begin with its weights, sizes and tokenizer",
        metavar="FOLDER",
    )
    model_arguments: dict = model_arguments(CausalLM)

    def unused(self, given):
        return dict.fromkeys(OF_CHECKPOINT, "is that of --checkpoint") if self.checkpoint else {}


@settings(
    attention=option("multi_head", ATTENTION, CAUSAL),
    epochs=option(10, "passes over the data; the learning rate is lowest after the last one", at_least=1),
    patience=None,
    learning_rate=1e-3,
    run="runs/lm",
)
class LmConfig(Text, Model, NamedSizes, Settings):
    """Every setting of a run. The folder `configs` has those of nanoGPT."""

    title = "training"
    SIZES = SIZES
    SOURCES = ("train", "built_in", "synthetic")
    MOST_USED = (
        "train",
        "validation",
        "test",
        "tokenizer",
        "size",
        "checkpoint",
        "length",
        "batch_size",
        *Settings.MOST_USED,
    )
    SIZE_OPTIONS = ("size",)
    PRETRAINED = ("checkpoint",)

    warmup_steps: int | None = option(
        None, f"updates of linear warm-up; none: {MOST_WARMUP:,}, but at most a tenth of all", at_least=0
    )
    final_rate: float = option(0.1, "last learning rate, as a share of the highest", at_least=0, at_most=1)
    weight_decay: float = option(0.1, "decoupled weight decay of kernels and embeddings", at_least=0)
    optimizer_arguments: dict = optimizer_arguments([keras.optimizers.AdamW], beta_2=0.99, global_clipnorm=1.0)

    def check(self):
        if self.tokenizer not in (*LEARNED, "bytes") and not self.tokenizer.endswith((".json", ".model")):
            raise ValueError(
                "--tokenizer must be characters, bytes, byte_pairs, or a tokenizer.json or tokenizer.model. "
                f"Received: {self.tokenizer}"
            )
        if self.stride is not None and self.stride > self.length:
            raise ValueError(
                f"--stride must be from 1 to --length. Received: stride={self.stride} with length={self.length}"
            )
        if self.checkpoint and self.synthetic:
            raise ValueError(
                "--synthetic needs a tokenizer of characters, and --checkpoint has its own. "
                f"Received: synthetic={self.synthetic}, checkpoint={self.checkpoint}"
            )

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        return [VALIDATION, *named_apart(named_files(self.test, ENDING), [VALIDATION])] if self.train else ["test"]

    @property
    def description(self):
        return f"{self.checkpoint or self.size}, {super().description}"
