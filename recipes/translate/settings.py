"""The settings of a translation run."""

import re

from keras_headattn.layers import ATTENTIONS
from keras_headattn.models import SIZES, Transformer
from recipes.engine import generation
from recipes.engine.config import option, settings
from recipes.engine.data import CACHED, is_cached, named_sets
from recipes.engine.lora import Lora
from recipes.engine.settings import NamedSizes, Settings, Smoothing, TextFiles, model_arguments

PAIRS = (".tsv", ".tsv.gz")  # endings of files of pairs
# Endings of test sets, such as `-zhen-src.zh.sgm` of WMT and `.de.xml` of IWSLT.
ENDINGS = r"((-[a-z]{4})?-(src|ref))?[.][^.]+[.](xml|sgml?)|[.][^.]+"
# Settings that a pretrained model brings.
OF_PRETRAINED = (
    "size", "vocabulary_size", "vocabulary_type", "vocabulary_sentences", "shared_vocabulary",
)  # fmt: skip
OF_VOCABULARY = ("vocabulary_size", "vocabulary_type", "target_vocabulary_size")
TENSORBOARD = ("images", "projector")
WEIGHTS = ("float32", "bfloat16", "int8")
# Defaults, of which little data get less: see `recipes.engine.modelling`.
MOST_WARMUP, MOST_TOKENS, MOST_PIECES = 4_000, 4_096, 10_000
LEARNT_FROM = 100_000  # most pairs that a shortlist is learnt from
DECODING = (*generation.DECODING, "shortlist")  # settings of the search; may change after training
# Arguments of a model from a checkpoint that may differ from its own.
OF_TRAINING = ("dropout", "activation_dropout", "recompute", "loss_chunk_size")
METRICS = (
    "bleu", "chrf", "exact_match", "tokenized_bleu", "compound_bleu", "wer", "ter", "rouge_l", "meteor", "cider",
    "yisi", "comet", "redundancy",
)  # fmt: skip


@settings(
    train=option(
        (), "two text files, source and target, or one of pairs with tabs between; .gz, .xml, .sgm too", metavar="FILE"
    ),
    validation=option(
        (),
        "two text files, or one of pairs, or sacrebleu:wmt13 of its cache; or a share of --train, such as 0.05",
        metavar="FILE",
    ),
    test=option(
        (),
        "text files, two a test set: source target source target ...; or .tsv of pairs, or sacrebleu:wmt14/full",
        changeable=True,
        metavar="FILE",
    ),
)
class Corpora(TextFiles):
    """The text, and which of it is used."""

    title = "data"

    source_language: str = option("en", "language of the source", metavar="LANGUAGE")
    target_language: str = option("de", "language of the target", metavar="LANGUAGE")
    iwslt: str | None = option(None, "folder of an unpacked IWSLT release, in place of files", metavar="FOLDER")
    columns: tuple[int, ...] = option((1, 2), "columns of source and target in a file of pairs, from 1")
    max_sentences: int | None = option(
        None, "number of pairs of each set to use, from its beginning; none: all", at_least=1
    )
    max_words: int = option(
        80,
        "largest number of words on a side of a training pair, a Chinese character or a kana being a word; longer"
        " pairs are dropped",
        at_least=1,
    )
    max_ratio: float | None = option(
        None, "largest ratio of the lengths of a training pair; others are dropped", at_least=1
    )
    records: str | None = option(
        None,
        "folder where the training text is kept as tokens, made once; for more text than fits in memory",
        metavar="FOLDER",
    )
    moses: bool = option(False, "normalise and tokenise by Moses rules (sacremoses) before SentencePiece")
    truecase: bool = option(False, "convert text to true case after Moses tokenisation")
    lowercase: bool = option(False, "convert all text to lower case, translations and references too")
    tokens_per_batch: int | None = option(
        None,
        f"target tokens in a batch, padding included, over all replicas; none: {MOST_TOKENS:,}, but fewer where an "
        "epoch would have less than 100 batches",
        at_least=1,
    )
    num_buckets: int = option(6, "largest number of length buckets; XLA compiles once for each", at_least=1)
    max_padding: float | None = option(
        None,
        "share of padding on the longer side below which no bucket is added; none: all buckets",
        above=0,
        below=1,
    )


@settings()
class Vocabulary:
    """The SentencePiece models."""

    title = "vocabulary"

    vocabulary: tuple[str, ...] = option(
        (),
        "files of vocabularies in place of learnt ones, one or of source and target: SentencePiece models "
        "(.model, .spm), or "
        "of text with spaces between tokens fairseq's dict.txt, a token a line, or so of both sides with <@@@> between",
        metavar="FILE",
    )
    vocabulary_size: int | None = option(
        None,
        f"number of SentencePiece pieces, of each language if not shared; none: {MOST_PIECES:,}, but fewer for "
        "less than 62,500 "
        "pairs",
        at_least=8,
    )
    vocabulary_type: str = option("bpe", "kind of SentencePiece model", ("bpe", "unigram"))
    vocabulary_sentences: int = option(
        1_000_000, "number of pairs, drawn at random, from which vocabulary and truecaser are learnt", at_least=1
    )
    shared_vocabulary: bool = option(True, "share one vocabulary and one embedding between both languages")
    target_vocabulary_size: int | None = option(
        None, "number of pieces of the target language, if none is shared; none: as many as of the source", at_least=8
    )


@settings()
class Model:
    """The Transformer, but for its attention."""

    title = "model"

    pretrained: str | None = option(
        None,
        "folder of a Marian model as Hugging Face has it, such as OPUS-MT's, to begin with: its vocabularies, sizes "
        "and weights, with the attention of --attention",
        metavar="FOLDER",
    )
    size: str = option("small", "named size", tuple(SIZES))
    model_arguments: dict = model_arguments(Transformer, dropout=0.3, normalization="pre")
    decoder_attention: str | None = option(
        None, "attention of the decoder to itself; none: --attention", tuple(ATTENTIONS)
    )
    decoder_attention_arguments: dict = option({}, "arguments of this attention, over those of --attention-arguments")
    cross_attention: str | None = option(
        None,
        "attention of the decoder to the encoder; none: --attention, or multi_head where keys are known by their "
        "places",
        tuple(ATTENTIONS),
    )
    cross_attention_arguments: dict = option({}, "arguments of this attention, over those of --attention-arguments")


@settings(
    search_arguments={**generation.SEARCH, "min_length": 1},  # beams of a weak model find empty translations best
    max_length=option(100, "most tokens of a translation; training pairs with a longer side are left out", at_least=1),
)
class Decoding(generation.Search):
    """Search for translations, and their scores."""

    shortlist: int | None = option(
        None,
        "number of likely target tokens to search among, as training or the command `shortlist` has learnt them; "
        "none: all",
        changeable=True,
        at_least=100,
    )
    metrics: tuple[str, ...] = option(
        ("bleu", "chrf"),
        "metrics of translations; redundancy: of the encoder's heads, LR and HR",
        METRICS,
        changeable=True,
    )
    embeddings: str | None = option(
        None, "text file of word vectors, for the metric yisi", changeable=True, metavar="FILE"
    )
    comet_model: str = option(
        "Unbabel/wmt22-comet-da",
        "name or checkpoint of a model on this machine, for the metric comet",
        changeable=True,
        metavar="MODEL",
    )
    validation_sentences: int = option(
        200, "number of validation sentences to translate for BLEU after each epoch; 0: none", at_least=0
    )
    tensorboard: tuple[str, ...] = option(
        TENSORBOARD,
        "views of TensorBoard; images: attention maps of two validation sentences after each epoch; projector: token "
        "embeddings after training",
        TENSORBOARD,
        changeable=True,
    )
    export_arguments: dict = option(
        {"attention": True, "weights": "float32", "cpu_only": False},
        "options of SavedModels; attention=true: add a signature that returns attention maps; weights: float32, "
        "bfloat16 or int8, the type of large matrices; cpu_only=true: for servers without GPU, a third faster "
        "there",
        changeable=True,
    )
    peak_flops: float | None = option(
        None,
        "floating-point operations a second of all devices together, by their data sheet, to show the share used",
        changeable=True,
        above=0,
    )


@settings(
    repulsive_arguments={"projections": ("query", "key", "value")},
    epochs=40,
    learning_rate=5e-4,
    optimizer_arguments=dict(beta_2=0.98, epsilon=1e-9),
    label_smoothing=0.1,
    run="runs/translate",
)
class TranslateConfig(Corpora, Vocabulary, Model, NamedSizes, Lora, Settings, Smoothing, Decoding):
    """Every setting of a run. Other values, of papers and of the synthetic task, are in the folder `configs`.

    The defaults are for a text of your own. Size, dropout, label smoothing, learning rate and, of much text, tokens per
    batch and warm-up are those of fairseq's recipe for IWSLT'14 German to English, 160,000 sentence pairs.
    """

    title = "training"
    SOURCES = ("train", "iwslt", "tfds", "built_in")
    MOST_USED = (
        "train", "validation", "test", "source_language", "target_language", "size", "tokens_per_batch",
        *Settings.MOST_USED,
    )  # fmt: skip
    SIZE_OPTIONS = (
        "size", "model_arguments.num_layers", "model_arguments.hidden_dim", "model_arguments.intermediate_dim",
    )  # fmt: skip
    PRETRAINED = ("pretrained",)
    EXPORTED = ("", "_ids")
    SIZES = SIZES

    warmup_steps: int | None = option(
        None,
        f"updates of linear warm-up, before decay with 1/sqrt(step); none: {MOST_WARMUP:,}, but at most a tenth of all "
        "steps",
        at_least=1,
    )

    def check(self):
        for name in ("train", "validation"):
            files = getattr(self, name)
            if len(files) > 2 or len(files) == 2 and any(map(is_whole, files)):
                raise ValueError(
                    f"--{name} takes two text files, source and target, or one file of pairs. "
                    f"Received: {name}={' '.join(files)}"
                )
        if len(self.columns) != 2 or min(self.columns) < 1:
            raise ValueError(f"--columns takes two numbers from 1. Received: columns={self.columns}")
        split_tests(self.test)
        if self.train and not self.validation:
            raise ValueError(
                "--train needs --validation, files or a share such as 0.05. "
                f"Received: train={self.train}, validation=()"
            )
        if self.validation_share and self.records:
            raise ValueError(f"--validation must be files with --records. Received: validation={self.validation[0]}")
        if self.export_arguments["weights"] not in WEIGHTS:
            raise ValueError(
                f"--export-arguments: `weights` must be one of {', '.join(WEIGHTS)}. "
                f"Received: weights={self.export_arguments['weights']!r}"
            )
        if self.truecase and not self.moses:
            raise ValueError("--truecase needs --moses. Received: truecase=True, moses=False")
        if self.truecase and self.lowercase:
            raise ValueError("Give one of --truecase and --lowercase. Received: both")
        if self.pretrained:
            self._check_pretrained()
        if self.target_vocabulary_size and self.shared_vocabulary:
            raise ValueError(
                "--target-vocabulary-size is that of a language with a vocabulary of its own: --no-shared-vocabulary. "
                f"Received: {self.target_vocabulary_size}"
            )

    SPLIT = ("iwslt", "tfds")

    def unused(self, given):
        files = given.get("test", self.test)
        reasons = dict.fromkeys(OF_PRETRAINED, "is that of --pretrained") if self.pretrained else {}
        reasons |= dict.fromkeys(OF_VOCABULARY, "is that of --vocabulary") if self.vocabulary else {}
        if self.vocabulary and not self.truecase:
            reasons["vocabulary_sentences"] = "is that of --vocabulary"
        if "yisi" not in self.metrics:
            reasons["embeddings"] = "is for --metrics yisi"
        if "comet" not in self.metrics:
            reasons["comet_model"] = "is for --metrics comet"
        sets = (self.train, self.validation_files, *split_tests(files))
        if not any(len(part) == 1 and not is_cached(*part) for part in sets):
            reasons["columns"] = "is only for files of pairs"
        return reasons

    def _check_pretrained(self):
        names = ("records", "moses", "lowercase", "vocabulary", "target_vocabulary_size")
        unsupported = {name: getattr(self, name) for name in names if getattr(self, name)}
        supported = (*OF_TRAINING, "normalization", "tie_output")
        unsupported |= {name: value for name, value in self.model_arguments.items() if name not in supported}
        if unsupported:
            raise ValueError(
                "--pretrained has its own sizes, positions and vocabularies, and takes no records. "
                f"Received: {', '.join(f'{name}={value!r}' for name, value in unsupported.items())}"
            )

    @property
    def test_sets(self):
        """Files or split of each test set by its name, which is that of its folder in `results/`."""
        if self.data == "built_in":
            return {"test": "test"}
        return (
            files_of_tests(self.test) if self.data == "train" else {set_name(name): name for name in self.test_splits}
        )

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        return list(self.test_sets)

    @property
    def languages(self):
        """The languages translated from and to."""
        return self.source_language, self.target_language

    @property
    def decoding_signature(self):
        return super().decoding_signature + (f"|shortlist:{self.shortlist}" if self.shortlist else "")

    @property
    def one_vocabulary(self):
        """True if both languages have one vocabulary in one file. A pretrained model has a file for each."""
        return self.shared_vocabulary and not self.pretrained


def is_whole(file):
    """True if a file has both sides, by its name: pairs with tabs between, or a set in sacreBLEU's cache."""
    return str(file).lower().endswith(PAIRS) or is_cached(file)


def set_name(file):
    """Returns a name for files of a set in sacreBLEU's cache, that of WMT if it has one; other names stay.

    >>> set_name("sacrebleu:wmt14/full"), set_name("sacrebleu:iwslt17/tst2016"), set_name("tst2014")
    ('newstest2014', 'iwslt17_tst2016', 'tst2014')
    """
    if not is_cached(file):
        return file
    return re.sub(r"^wmt(\d\d)(_full)?$", r"newstest20\1", file.removeprefix(CACHED).replace("/", "_"))


def files_of_tests(files):
    """Returns the files of each test set by name: `test_2016_flickr` of test_2016_flickr.en.gz, `tst` of tst.de.xml,
    `newstest2017` of newstest2017-zhen-src.zh.sgm and of sacrebleu:wmt17.
    """
    sets = split_tests(files)
    return dict(zip(named_sets([[set_name(first)] for first, *_ in sets], ENDINGS), sets, strict=True))


def split_tests(files):
    """Splits the files of test sets: lists of two, source and target, or of one with both.

    >>> split_tests(["a.en", "a.de", "b.tsv"])
    [['a.en', 'a.de'], ['b.tsv']]
    >>> split_tests(["pairs.txt"])
    [['pairs.txt']]
    """
    if len(files) == 1:
        return [list(files)]
    sets, rest = [], list(files)
    while rest:
        size = 1 if is_whole(rest[0]) else 2
        if len(rest) < size or size == 2 and is_whole(rest[1]):
            raise ValueError(
                "--test takes 2 files a test set, source and target, or one of pairs (.tsv). "
                f"Received: {' '.join(map(str, files))}"
            )
        sets.append(rest[:size])
        rest = rest[size:]
    return sets
