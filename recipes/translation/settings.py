"""The settings of a translation run."""

import dataclasses

from recipes.config import option

# Blocks, width, feed-forward width and heads. tiny: Wu et al. 2021 on Multi30k. small: fairseq's for IWSLT.
# base: Vaswani et al. 2017. lite: Wu et al. 2020. interacting: Zhang et al. 2022, who try 2 to 64 heads.
SIZES = {
    "tiny": dict(num_layers=4, hidden_dim=128, intermediate_dim=256, num_heads=4),
    "small": dict(num_layers=6, hidden_dim=512, intermediate_dim=1024, num_heads=4),
    "base": dict(num_layers=6, hidden_dim=512, intermediate_dim=2048, num_heads=8),
    "lite": dict(num_layers=6, hidden_dim=160, intermediate_dim=160, num_heads=4),
    "interacting": dict(num_layers=6, hidden_dim=512, intermediate_dim=1024, num_heads=8),
}
ATTENTIONS = ("interacting", "interacting_pairwise", "multi_head", "talking_heads", "luong")


@dataclasses.dataclass(frozen=True)
class TranslateConfig:
    """Every setting of a run; the defaults are the embedded task's."""

    # Data
    source_language: str = option("en", "language translated from")
    target_language: str = option("de", "language translated to")
    train: tuple[str, ...] = option((), "two text files (.gz too), source and target; none: the embedded task")
    validation: tuple[str, ...] = option((), "two text files")
    test: tuple[str, ...] = option((), "text files, two a test set: source target source target ...")
    iwslt: str | None = option(None, "folder of an unpacked IWSLT release, in place of the files above")
    tfds: str | None = option(None, "TensorFlow Datasets name such as wmt14_translate/de-en, in place of files")
    train_split: str = option("train", "split of --iwslt or --tfds to train on")
    validation_split: str = option("validation", "split of --iwslt or --tfds for validation")
    test_splits: tuple[str, ...] = option(("test",), "splits of --iwslt or --tfds to test on")
    max_words: int = option(80, "training pairs with more words on a side are dropped")
    max_ratio: float | None = option(None, "training pairs whose lengths differ by more than this are dropped")
    moses: bool = option(False, "normalise and tokenise by Moses rules (sacremoses) before SentencePiece")
    truecase: bool = option(False, "truecase after Moses tokenisation")
    # Vocabulary
    vocabulary_size: int = option(300, "SentencePiece pieces; of each language if not shared")
    vocabulary_type: str = option("bpe", "kind of SentencePiece model", ("bpe", "unigram"))
    shared_vocabulary: bool = option(True, "one vocabulary and one embedding for both languages")
    # Model
    size: str = option("tiny", "named size", tuple(SIZES))
    attention: str = option("interacting", "how heads work together", ATTENTIONS)
    num_heads: int | None = option(None, "heads; none: the size's")
    key_dim: int | None = option(None, "width of a key of one head; none: width / heads")
    num_layers: int | None = option(2, "encoder blocks, and decoder blocks; none: the size's")
    hidden_dim: int | None = option(None, "width of the model; none: the size's")
    intermediate_dim: int | None = option(None, "width of feed-forward layers; none: the size's")
    dropout: float = option(0.1, "dropout of embeddings and sublayers")
    attention_dropout: float = option(0.0, "dropout of attention weights")
    activation_dropout: float = option(0.0, "dropout inside feed-forward layers")
    norm_first: bool = option(True, "pre-norm blocks; --no-norm-first: post-norm, as in 2017")
    learned_positions: bool = option(False, "learned positions in place of sinusoidal ones")
    tie_output: bool = option(True, "output layer tied to the target embedding")
    # Training
    epochs: int = option(6, "most passes over the data")
    patience: int | None = option(None, "stop after so many epochs without a better validation loss")
    time_limit: float | None = option(None, "stop training after so many minutes")
    tokens_per_batch: int = option(1024, "target tokens in a batch, padding included, over all replicas")
    num_buckets: int = option(3, "length buckets; XLA compiles once for each")
    learning_rate: float = option(2e-3, "peak learning rate")
    warmup_steps: int = option(200, "steps of linear warm-up, before decay with 1/sqrt(step)")
    beta_2: float = option(0.98, "Adam's second-moment decay")
    epsilon: float = option(1e-9, "Adam's epsilon")
    clipnorm: float | None = option(None, "largest norm of the whole gradient")
    label_smoothing: float = option(0.1, "share of a label spread over the vocabulary")
    average: int = option(1, "checkpoints averaged at the end: the last n; 1: the best by validation loss")
    precision: str = option("float32", "dtype policy", ("float32", "mixed_float16", "mixed_bfloat16"))
    replicas: int | None = option(None, "none: all GPUs, else one CPU replica; n without GPUs splits the CPU")
    xla: bool | None = option(None, "compile training by XLA; none: yes on GPUs, no on CPUs")
    steps_per_execution: int = option(1, "training steps run in one go")
    seed: int = option(0, "of everything random")
    # Decoding and output
    beam_size: int = option(4, "1: greedy")
    alpha: float = option(0.6, "exponent of the length penalty")
    max_length: int = option(64, "most tokens of a sentence; longer training pairs are left out")
    metrics: tuple[str, ...] = option(
        ("exact_match", "bleu", "chrf"),
        "exact_match, bleu, chrf, tokenized_bleu, wer, rouge_l, meteor, cider, yisi",
    )
    embeddings: str | None = option(None, "text file of word vectors, for the metric yisi")
    validation_sentences: int = option(200, "validation sentences translated for BLEU after each epoch; 0: none")
    sample_sentences: int = option(5, "test sentences translated by the SavedModel at the end")
    images: bool = option(True, "attention maps of two validation sentences in TensorBoard after each epoch")
    run: str = option("runs/translate", "folder of the run")
    export: str = option("saved_models/translate", "folder that gets a new numbered version of the SavedModel")

    def __post_init__(self):
        if self.iwslt and self.tfds or self.train and (self.iwslt or self.tfds):
            raise ValueError(
                "Give one of --train, --iwslt and --tfds. "
                f"Received: train={self.train}, iwslt={self.iwslt}, tfds={self.tfds}"
            )
        if len(self.train) not in (0, 2) or len(self.validation) not in (0, 2) or len(self.test) % 2:
            raise ValueError(
                "--train and --validation take two files, --test an even number. Received: "
                f"train={self.train}, validation={self.validation}, test={self.test}"
            )
        if self.train and not self.validation:
            raise ValueError(f"--train needs --validation. Received: train={self.train}, validation=()")
        if self.truecase and not self.moses:
            raise ValueError("--truecase needs --moses. Received: truecase=True, moses=False")
        for name in ("epochs", "average", "beam_size", "max_length", "num_buckets", "steps_per_execution"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {name}={getattr(self, name)}")

    @property
    def shape(self):
        """The named size with what overrides it: num_layers, hidden_dim, intermediate_dim, num_heads."""
        given = {name: getattr(self, name) for name in SIZES[self.size]}
        return SIZES[self.size] | {name: value for name, value in given.items() if value is not None}
