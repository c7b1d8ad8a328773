"""The settings of a translation run."""

import dataclasses

from keras_headattn import layers
from keras_headattn.models import SIZES
from recipes.engine.config import at_most_one, check_ranges, check_steps, option, the_one

ATTENTIONS = (*layers.ATTENTIONS, "interacting_pairwise")
DATA = ("train", "iwslt", "tfds", "embedded")
# Titles of groups of settings, by their first one.
GROUPS = {
    "source_language": "data",
    "vocabulary_size": "vocabulary",
    "size": "model",
    "repulsive": "heads that keep apart",
    "epochs": "training",
    "beam_size": "decoding and output",
}


@dataclasses.dataclass(frozen=True)
class TranslateConfig:
    """Every setting of a run. Other values, of papers and of the embedded task, are in `recipes/configs`.

    The defaults are for a text of your own. Size, dropout, label smoothing, tokens per batch, learning rate and warm-up
    are those of fairseq's recipe for IWSLT'14 German to English, 160,000 sentence pairs.
    """

    # Data
    source_language: str = option("en", "language translated from")
    target_language: str = option("de", "language translated to")
    train: tuple[str, ...] = option((), "two text files (.gz too), source and target")
    validation: tuple[str, ...] = option((), "two text files")
    test: tuple[str, ...] = option((), "text files, two a test set: source target source target ...")
    iwslt: str | None = option(None, "folder of an unpacked IWSLT release, in place of the files above")
    tfds: str | None = option(None, "TensorFlow Datasets name such as wmt14_translate/de-en, in place of files")
    embedded: bool = option(False, "the embedded task: numbers, dates and amounts made by code")
    train_split: str = option("train", "split of --iwslt or --tfds to train on")
    validation_split: str = option("validation", "split of --iwslt or --tfds for validation")
    test_splits: tuple[str, ...] = option(("test",), "splits of --iwslt or --tfds to test on; a+b: as one set")
    max_sentences: int | None = option(None, "use only the first so many pairs of each set; none: all", at_least=1)
    max_words: int = option(
        80, "training pairs with more words on a side are dropped; a Chinese character or a kana is a word", at_least=1
    )
    max_ratio: float | None = option(
        None, "training pairs whose lengths differ by more than this are dropped", at_least=1
    )
    records: str | None = option(
        None, "folder where the training text is kept as tokens, made once; for more text than fits in memory"
    )
    moses: bool = option(False, "normalise and tokenise by Moses rules (sacremoses) before SentencePiece")
    truecase: bool = option(False, "truecase after Moses tokenisation")
    lowercase: bool = option(False, "lower-case all text, translations and references too")
    # Vocabulary
    vocabulary_size: int = option(10_000, "SentencePiece pieces; of each language if not shared", at_least=8)
    vocabulary_type: str = option("bpe", "kind of SentencePiece model", ("bpe", "unigram"))
    vocabulary_sentences: int = option(
        1_000_000, "pairs that vocabulary and truecaser are learnt from: a random sample of so many", at_least=1
    )
    shared_vocabulary: bool = option(True, "one vocabulary and one embedding for both languages")
    target_vocabulary_size: int | None = option(
        None, "pieces of the target language, if it shares none; none: as many as of the source", at_least=8
    )
    # Model
    size: str = option("small", "named size", tuple(SIZES))
    attention: str = option("interacting", "how heads work together", ATTENTIONS)
    map_alpha: float = option(0.1, "evolving: share of the previous block's map in the encoder", at_least=0, at_most=1)
    map_beta: float = option(0.1, "evolving: share of the convolution of the map", at_least=0, at_most=1)
    map_kernel: int = option(3, "evolving: size of the convolution", (1, 3, 5))
    map_roles: tuple[str, ...] = option(
        ("encoder", "decoder", "cross"),
        "evolving: which attentions convolve their maps",
        ("encoder", "decoder", "cross"),
    )
    synthesis: tuple[str, ...] = option(
        ("random", "dot_product"), "synthesizer: what its logits are made of", ("dense", "random", "dot_product")
    )
    num_clusters: int = option(4, "disentangled_mask: clusters of each head, and of queries", at_least=1)
    mask_share: float = option(
        0.5, "disentangled_mask: alpha, what the share of the weights under the mask becomes", at_least=0, at_most=1
    )
    shared_information: float = option(
        1e-5, "disentangled_mask: weight of what the queries of two heads have in common", at_least=0
    )
    kept_information: float = option(
        0.001, "disentangled_mask: weight of what queries and inputs have in common", at_least=0
    )
    divergence: float = option(1e-5, "disentangled_mask: weight of the divergence from the mixtures", at_least=0)
    cluster_diversity: float = option(1e-3, "disentangled_mask: weight of the diversity of clusters", at_least=0)
    centre_gradient: float = option(
        10.0, "disentangled_mask: what the gradient of the centres of clusters is multiplied by", at_least=0
    )
    relative_positions: int | None = option(
        None,
        "largest distance with relative positions of its own in self-attention; none: no such positions",
        at_least=1,
    )
    num_heads: int | None = option(None, "heads; none: the size's", at_least=1)
    key_dim: int | None = option(None, "width of a key of one head; none: width / heads", at_least=1)
    num_layers: int | None = option(None, "encoder blocks, and decoder blocks; none: the size's", at_least=1)
    hidden_dim: int | None = option(None, "width of the model; none: the size's", at_least=1)
    intermediate_dim: int | None = option(None, "width of feed-forward layers; none: the size's", at_least=1)
    dropout: float = option(0.3, "dropout of embeddings and sublayers", at_least=0, below=1)
    attention_dropout: float = option(0.0, "dropout of attention weights", at_least=0, below=1)
    activation_dropout: float = option(0.0, "dropout inside feed-forward layers", at_least=0, below=1)
    norm_first: bool = option(True, "pre-norm blocks; --no-norm-first: post-norm, as in 2017")
    learned_positions: bool = option(False, "learned positions in place of sinusoidal ones")
    tie_output: bool = option(True, "output layer tied to the target embedding")
    # Heads that keep apart
    repulsive: str = option("none", "heads as particles that drive each other apart", ("none", "svgd", "spos", "sgld"))
    step_size: float = option(
        0.1, "repulsive: epsilon, what the optimizer receives is so many times the update", above=0
    )
    repulsive_weight: float = option(0.01, "repulsive: alpha, the weight of the repulsion", at_least=0)
    inverse_temperature: float = option(1e8, "repulsive: beta of SPOS and SGLD; the larger, the less noise", above=0)
    prior_deviation: float | None = option(None, "repulsive: of a Gaussian prior; none: a uniform one", above=0)
    repulsive_kernel: str = option("rbf", "repulsive: cosine: eq. 14 of An et al. 2020", ("rbf", "cosine"))
    repulsive_smoothing: bool = option(
        True, "repulsive: heads follow the gradients of near ones, too; --no-repulsive-smoothing: their own alone"
    )
    repulsive_projections: tuple[str, ...] = option(
        ("query", "key", "value"), "repulsive: which kernels", ("query", "key", "value")
    )
    repulsive_roles: tuple[str, ...] = option(
        ("encoder", "decoder", "cross"), "repulsive: which attentions", ("encoder", "decoder", "cross")
    )
    repulsive_layers: str = option(
        "all", "repulsive: all layers, or the first or last of each role", ("all", "first", "last")
    )
    attention_regularizer: str = option(
        "none",
        "frobenius: Lin et al. 2017; disagreement: Li et al. 2018; cosine: of parameters",
        ("none", "frobenius", "disagreement", "cosine"),
    )
    regularizer_weight: float = option(1.0, "of the attention regularizer in the loss", at_least=0)
    # Training
    epochs: int = option(40, "most passes over the data", at_least=1)
    patience: int | None = option(5, "stop after so many epochs without a better validation loss", at_least=1)
    time_limit: float | None = option(
        None,
        "start no epoch that would end later than so many minutes after the first one of this start of the command",
        above=0,
    )
    save_steps: int | None = option(
        1000, "save the state of training after each so many steps, besides each epoch; none: not", at_least=1
    )
    tokens_per_batch: int = option(4096, "target tokens in a batch, padding included, over all replicas", at_least=1)
    accumulation: int = option(1, "batches whose gradients are averaged for one update of the weights", at_least=1)
    num_buckets: int = option(6, "length buckets, at most; XLA compiles once for each", at_least=1)
    max_padding: float | None = option(
        None, "no more buckets than keep the padding of the longer side to this share; none: all", above=0, below=1
    )
    learning_rate: float = option(5e-4, "peak learning rate", above=0)
    warmup_steps: int = option(4000, "steps of linear warm-up, before decay with 1/sqrt(step)", at_least=1)
    beta_2: float = option(0.98, "Adam's second-moment decay", at_least=0, below=1)
    epsilon: float = option(1e-9, "Adam's epsilon", above=0)
    clipnorm: float | None = option(None, "largest norm of the whole gradient", above=0)
    label_smoothing: float = option(0.1, "share of a label spread over the vocabulary", at_least=0, below=1)
    average: int = option(1, "epochs whose weights are averaged at the end; 1: the best by validation loss", at_least=1)
    average_of: str = option("last", "which epochs: the last, or the best by validation loss", ("last", "best"))
    precision: str = option("float32", "dtype policy", ("float32", "mixed_float16", "mixed_bfloat16"))
    strategy: str = option(
        "mirrored",
        "the devices of this machine, or those of all workers that the environment names: see docs/distributed.md",
        ("mirrored", "multi_worker"),
    )
    replicas: int | None = option(
        None, "none: all GPUs, else one CPU replica; n without GPUs splits the CPU", at_least=1
    )
    xla: bool | None = option(None, "compile training by XLA; none: yes on GPUs, no on CPUs")
    steps_per_execution: int = option(1, "training steps run in one go", at_least=1)
    xla_cache: str | None = option(
        None, "folder where XLA keeps training steps it compiled, for later runs on this machine; counts them"
    )
    seed: int = option(0, "of everything random", at_least=0)
    # Decoding and output
    beam_size: int = option(4, "1: greedy", at_least=1)
    alpha: float = option(0.6, "exponent of the length penalty", at_least=0)
    max_length: int = option(
        100, "most tokens of a translation; training pairs with a longer side are left out", at_least=1
    )
    metrics: tuple[str, ...] = option(
        ("bleu", "chrf"),
        "exact_match, bleu, chrf, tokenized_bleu, wer, rouge_l, meteor, cider, yisi",
    )
    embeddings: str | None = option(None, "text file of word vectors, for the metric yisi")
    validation_sentences: int = option(
        200, "validation sentences translated for BLEU after each epoch; 0: none", at_least=0
    )
    sample_sentences: int = option(5, "test sentences translated by the SavedModel at the end", at_least=0)
    images: bool = option(True, "attention maps of two validation sentences in TensorBoard after each epoch")
    projector: bool = option(True, "token embeddings in TensorBoard's projector after training")
    gradient_norm: bool = option(False, "the gradient's norm in the history and in TensorBoard")
    peak_flops: float | None = option(
        None, "operations per second of all devices together, by their data sheet; shows the share used", above=0
    )
    profile_steps: tuple[int, ...] = option((), "first and last training step to profile for TensorBoard")
    run: str = option("runs/translate", "folder of the run")
    export: str | None = option(
        "saved_models/translate", "folder that gets a new numbered version of the SavedModel; none: no SavedModel"
    )

    def __post_init__(self):
        self._check_data()
        if self.truecase and not self.moses:
            raise ValueError("--truecase needs --moses. Received: truecase=True, moses=False")
        if self.truecase and self.lowercase:
            raise ValueError("Give one of --truecase and --lowercase. Received: both")
        if self.attention == "luong" and self.num_heads not in (None, 1):
            raise ValueError(f"Luong attention has one head. Received: num_heads={self.num_heads}")
        if self.target_vocabulary_size and self.shared_vocabulary:
            raise ValueError(
                "--target-vocabulary-size is that of a language with a vocabulary of its own: --no-shared-vocabulary. "
                f"Received: {self.target_vocabulary_size}"
            )
        check_steps("profile_steps", self.profile_steps)
        check_ranges(self)

    def _check_data(self):
        given = at_most_one(self, DATA)
        if len(self.train) not in (0, 2) or len(self.validation) not in (0, 2) or len(self.test) % 2:
            raise ValueError(
                "--train and --validation take two files, --test an even number. Received: "
                f"train={self.train}, validation={self.validation}, test={self.test}"
            )
        if self.train and not self.validation:
            raise ValueError(f"--train needs --validation. Received: train={self.train}, validation=()")
        for name in ("validation", "test"):
            if getattr(self, name) and not self.train:
                also = f", {given}={getattr(self, given)!r}" if given else ""
                raise ValueError(f"--{name} needs --train. Received: {name}={getattr(self, name)}, train=(){also}")

    @property
    def data(self):
        """Which setting names the data: one of `DATA`.

        Raises:
            ValueError: if none does.
        """
        return the_one(self, DATA)

    @property
    def shape(self):
        """The named size with what overrides it: num_layers, hidden_dim, intermediate_dim, num_heads."""
        given = {name: getattr(self, name) for name in SIZES[self.size]}
        if self.attention == "luong":
            given["num_heads"] = 1
        return SIZES[self.size] | {name: value for name, value in given.items() if value is not None}
