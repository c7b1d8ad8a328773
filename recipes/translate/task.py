"""Training of a translator."""

import functools
import itertools

import keras
import tensorflow as tf

from keras_headattn._files import read_lines
from keras_headattn.data import RecordBatches, Records, TokenBatches, choose_buckets, example_lengths, teacher_forcing
from keras_headattn.decoding import Shortlist
from keras_headattn.interop import read_shortlist
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.optimizers import InverseSquareRoot
from keras_headattn.serving import export_id_translator, export_translator, write_examples
from keras_headattn.text import LanguagePair
from keras_headattn.training import AttentionImages, ClusterReport, EpochScore, HeadNorms, Model
from recipes.engine.flops import count_flops
from recipes.engine.fresh_process import smoke_test
from recipes.engine.optimizer import make_optimizer
from recipes.engine.proportions import fitting_batch, fitting_warmup
from recipes.engine.records import fingerprint_of, is_complete, take_files
from recipes.engine.task import Task, named_apart
from recipes.translate.corpora import check_sizes, load_corpora, load_tests, read_files, stream_training
from recipes.translate.evaluation import check_metrics, evaluate, named_metrics
from recipes.translate.modelling import ChunkedTrainer, make_attentions, make_transformer
from recipes.translate.prepare import COLUMNS, prepare, sample_pairs
from recipes.translate.settings import DECODING, LEARNT_FROM, MOST_TOKENS, MOST_WARMUP, files_of_tests
from recipes.translate.tensorboard import attention_of_samples, flops_utilization, show_embeddings
from recipes.translate.text import check_moses, make_text, make_translator
from recipes.translate.text_maps import redundancy

SMOKE_TEST = """
found = call(text=tf.constant(given))
result = [[text.decode() for text in found["translations"].numpy()], found["scores"].numpy().tolist()]
"""
LEAST_TOKENS = 512  # of a batch that fits little data


class Translate(Task):
    """Transformer that translates, its text and its vocabulary."""

    def check(self):
        check_metrics(*self._metrics())
        if self.config.moses:
            check_moses(self.config.languages)
        make_attentions(self.config)

    def try_model(self):
        if not self.config.pretrained:
            make_transformer(self.config, 8, 8)

    def load(self):
        self.data = load_corpora(self.config)

    def fingerprint(self):
        found, folder = super().fingerprint(), self.config.records
        return found | ({"training": fingerprint_of(Records(folder))} if folder and is_complete(folder) else {})

    def prepare(self):
        config, train = self.config, self.data and self.data.train
        if self.data and config.records:
            prepare(config)
            names = LanguagePair.file_names(config.one_vocabulary, config.moses)
            take_files(config.records, names, self.run.folder)
            self.run.claim_data(self.fingerprint())
        sample = train and sample_pairs(train, train.name, config.vocabulary_sentences, config.seed)
        self.text = make_text(config, sample, self.run.folder)
        if config.shortlist and not self._shortlist_path.exists() and (train or config.records):
            self.learn_shortlist(train or stream_training(config))
        if 2 * config.beam_size > self.text.target.vocabulary_size:
            raise ValueError(
                "--beam-size must be at most half the vocabulary. "
                f"Received: beam_size={config.beam_size} for {self.text.target.vocabulary_size} pieces"
            )

    def make_batches(self, num_replicas):
        """Makes batches in length buckets of the training corpus; validation has one more if it has longer pairs."""
        config = self.config
        if config.records:
            records = Records(config.records)
            histogram = records.histogram()
            lengths, counts = histogram["length"], histogram["examples"]
        else:
            train = self._encode(self.data.train, "train")
            lengths, counts = example_lengths(train), None
        validation = self._encode(self.data.validation, "validation")
        short = lengths <= config.max_length
        buckets = choose_buckets(
            lengths[short], config.num_buckets, config.max_padding, None if counts is None else counts[short]
        )
        tokens = int((lengths * (1 if counts is None else counts))[short].sum())
        least = num_replicas * max(LEAST_TOKENS, buckets[-1])
        common = dict(
            tokens_per_batch=config.tokens_per_batch or fitting_batch(tokens, MOST_TOKENS, least),
            num_replicas=num_replicas,
            preprocess=functools.partial(teacher_forcing, bos_id=self.text.target.bos_id),
        )
        if config.records:
            batches = RecordBatches(records, bucket_lengths=buckets, seed=config.seed, columns=COLUMNS, **common)
        else:
            batches = TokenBatches(train, bucket_lengths=buckets, seed=config.seed, **common)
        longest = max(length for length in example_lengths(validation).tolist() if length <= config.max_length)
        if longest > buckets[-1]:
            buckets = *buckets, longest
        held_out = TokenBatches(validation, bucket_lengths=buckets, shuffle=False, **common)
        if held_out.num_dropped:
            print(
                f"{held_out.num_dropped:,} of {len(self.data.validation):,} validation pairs left out: "
                f"a side of more tokens than --max-length {config.max_length}"
            )
        return batches, held_out

    def _encode(self, corpus, name):
        """Token ids of both sides, by their names."""
        columns = {"source": self.text.encode_source(corpus.source), "target": self.text.encode_target(corpus.target)}
        if min(example_lengths(columns)) > self.config.max_length:
            raise ValueError(
                f"Every pair of the {name} set has a side of more tokens than --max-length. "
                f"Received: max_length={self.config.max_length}"
            )
        return columns

    def make_model(self):
        return make_transformer(self.config, self.text.source.vocabulary_size, self.text.target.vocabulary_size)

    def make_trainer(self, model):
        if model.loss_chunk_size is not None:
            return ChunkedTrainer(model)
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
        return Model(inputs, model(inputs), name="trainer")

    def warmup(self, steps):
        return fitting_warmup(self.config.warmup_steps, MOST_WARMUP, self.config.epochs * steps)

    def make_optimizer(self, steps, num_replicas):
        config = self.config
        return make_optimizer(
            config,
            keras.optimizers.Adam,
            learning_rate=InverseSquareRoot(config.learning_rate, self.warmup(steps)),
        )

    def make_loss(self):
        return LabelSmoothedCrossentropy(self.config.label_smoothing)

    def make_metrics(self):
        if self.config.model_argument("loss_chunk_size") is not None:
            return []
        if self.config.precision != "float32":
            return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        # The same in fewer passes over the logits, but it counts ties, which are common in 16 bits, as hits.
        return [keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="accuracy")]

    def throughput(self, batches):
        return lambda: batches.num_tokens["target"], "tokens_per_second"

    def reports(self, model, batches):
        peak = self.config.peak_flops
        reports = [flops_utilization(model, batches, peak)] if peak else []
        names = self.config.attention, self.config.decoder_attention, self.config.cross_attention
        return [*reports, ClusterReport()] if "disentangled_mask" in names else reports

    def flops(self, model):
        """Operations on 30 tokens and their translation into 30, without the output layer, as Wu et al. 2020 count."""
        ids = tf.ones((1, min(30, self.config.max_length)), tf.int32)
        return count_flops(lambda: model.states({"source": ids, "target": ids}))

    def scores(self, model):
        number = self.config.validation_sentences
        if not number:
            return []
        sentences = self.data.validation.source[:number]
        references = self.text.references(self.data.validation.target[:number])
        translate = make_translator(model, self.text, **self.config.greedy_decoding)
        (bleu,) = named_metrics(["bleu"], self.config.target_language)

        def score(model):
            return bleu([translation.text for translation in translate(sentences)], references).value

        return [EpochScore(score, "val_bleu")]

    def shown(self, model, batches, validation):
        shown = [HeadNorms(self.run.log_dir)]
        if "images" in self.config.tensorboard:
            attend = attention_of_samples(model, self.text, self.data.validation)
            shown.append(AttentionImages(self.run.log_dir, attend))
        return shown

    def load_tests(self, files=None):
        if files is None:
            tests = load_tests(self.config)
        else:
            how = self.config.columns, self.config.max_sentences, self.config.languages
            tests = {name: read_files(pair, *how) for name, pair in files_of_tests(files).items()}
            tests = named_apart(tests, self.run.read_config().names_of_tests)
        check_sizes(tests.values())
        return self.run.name_results(self.config, tests, (*DECODING, "iwslt", "tfds"))

    def translator(self, model, **options):
        """Returns a `Translator` with the settings of decoding and `options`; learned positions limit translations."""
        trained = self.run.read_config()
        names = trained.attention, trained.decoder_attention, trained.cross_attention
        learned = trained.model_arguments.get("positions") == "learned" or "synthesizer" in names
        if learned and self.config.max_length > trained.max_length:
            raise ValueError(
                f"The run has learned positions for {trained.max_length} tokens. "
                f"Received: max_length={self.config.max_length}"
            )
        return make_translator(model, self.text, **self.config.decoding, shortlist=self.shortlist(), **options)

    def shortlist(self):
        """Returns the `Shortlist` that the settings name, `None` for none."""
        size = self.config.shortlist
        if size and not self._shortlist_path.exists():
            raise ValueError(
                f"The run must learn a shortlist first: python -m recipes.translate shortlist {self.run.folder} "
                f"SOURCE TARGET. Received: shortlist={size}"
            )
        return Shortlist.load(self._shortlist_path, size) if size else None

    def shortlist_of_run(self):
        """Returns the `Shortlist` that the run has learnt, `None` if it has none."""
        return Shortlist.load(self._shortlist_path) if self._shortlist_path.exists() else None

    def learn_shortlist(self, pairs):
        """Writes which tokens of the first `LEARNT_FROM` pairs of sentences translate which."""
        source, target = zip(*itertools.islice(pairs, LEARNT_FROM), strict=True)
        print(f"Learning the shortlist from {len(source):,} pairs")
        sides = self.text.encode_source(source), self.text.encode_target(target)
        Shortlist.learn(*sides, self.text.source.vocabulary_size).save(self._shortlist_path)

    def read_shortlist(self, path):
        """Writes the lexical table of a file of Marian as the run's shortlist."""
        read_shortlist(path, self.text.source, self.text.target).save(self._shortlist_path)

    @property
    def _shortlist_path(self):
        return self.run.folder / "shortlist.npz"

    def evaluate(self, model, tests):
        if "projector" in self.config.tensorboard and self.data:
            show_embeddings(self.run, model, self.text)
        config = self.config
        functions = named_metrics(*self._metrics())
        decoding = config.decoding_signature + ("|lowercase:True" if config.lowercase else "")
        of_heads = functools.partial(redundancy, model, self.text) if "redundancy" in config.metrics else None
        evaluate(self.translator(model), tests, functions, decoding, self.run.results, config.quiet, of_heads)

    def _metrics(self):
        """The arguments of `named_metrics`."""
        config = self.config
        return config.metrics, config.target_language, config.embeddings, config.comet_model

    def export(self, model, folder, ids_folder):
        config, translator = self.config, self.translator(model)
        text, searcher = translator.text, translator.searcher
        given = dict(config.export_arguments, run=config.run, shortlist=self.shortlist())
        length = translator.max_source_length
        path = export_translator(searcher, text.source, text.target, folder, max_source_length=length, **given)
        del given["attention"]
        export_id_translator(searcher, ids_folder, **given)
        sentences = self._samples()
        step = max(1, len(sentences) // max(1, config.samples))
        # The SavedModel does not include Moses' steps: it takes text that has gone through them.
        if samples := text.prepare_source(sentences[::step][: config.samples]):
            write_examples(path, [{"text": sample} for sample in samples])
            found = smoke_test(path, SMOKE_TEST, samples, "tensorflow_text")
            for source, translation, score in zip(samples, *found, strict=True):
                print(f"  {source}\n    -> {translation}  ({score:.3f})")

    def _samples(self):
        """Sentences of the test sets: of those read, or of those translated before."""
        if self.data:
            return [sentence for corpus in self.data.tests.values() for sentence in corpus.source]

        paths = sorted(self.run.results.glob("*/sources.txt"))
        return [line for path in paths for line in read_lines(path) if line]
