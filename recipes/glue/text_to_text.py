"""Fine-tuning of T5, which writes its labels."""

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.data import MemoryBatches, choose_buckets, pad_ids, source_batches, source_lengths, teacher_forcing
from keras_headattn.decoding import Searcher
from keras_headattn.interop import from_pretrained
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import T5
from keras_headattn.serving import save_signatures
from keras_headattn.training import EpochScore, Model
from recipes.engine.encoders import attention_arguments
from recipes.engine.flops import count_flops
from recipes.engine.task import check_batch_size
from recipes.glue.label_texts import WrittenClasses, WrittenNumbers
from recipes.glue.targets import targets_of
from recipes.glue.task import Glue

START = 0  # of T5's decoder


class TextBatches(MemoryBatches):
    """Batches of sources in length buckets, with their targets, all padded to `target_length`.

    `columns` are `source` and `target`, lists of int arrays; `training` shuffles anew in each epoch.
    """

    def __init__(self, columns, batch_size, bucket_lengths, target_length, training, seed):
        rows = [batch_size] * len(bucket_lengths)
        super().__init__({"source": columns["source"]}, rows, bucket_lengths, training, seed)
        self.targets = columns["target"]
        self.target_length = target_length

    def make_batch(self, bucket, members):
        rows = self.rows[bucket]
        source = pad_ids([self.columns["source"][member] for member in members], rows, self.bucket_lengths[bucket])
        source[~source.any(axis=1), 0] = 1  # rows without ids
        target = pad_ids([self.targets[member] for member in members], rows, self.target_length)
        return teacher_forcing({"source": source, "target": target}, bos_id=START)


class TextPredictor:
    """Labels that a T5 writes for texts when called, as rows of `WrittenClasses`."""

    def __init__(self, model, tokenizer, targets, max_length, longest, batch_size=64):
        self.tokenizer, self.targets = tokenizer, targets
        self.max_length, self.batch_size = max_length, batch_size
        self.searcher = Searcher(model, 1, 0.0, longest, START, tokenizer.eos_id)
        self.search = tf.function(self.searcher, autograph=False, reduce_retracing=True)

    def written(self, ids):
        """Returns the texts that are written for ids `(B, n)`, and their probabilities, both `(B,)`."""
        found = self.search(ids)
        tokens = found["tokens"][:, 0]
        return self.tokenizer.detokenize(tokens), tf.exp(found["scores"][:, 0])

    def __call__(self, texts, second_texts=None, progress=None):
        sources = self.targets.texts.sources(texts, second_texts)
        found = [""] * len(sources)
        done = 0
        for members, ids in source_batches(
            self.tokenizer.encode(sources), source_lengths(self.max_length), self.batch_size, filler=1
        ):
            written, _ = self.written(tf.constant(ids))
            for member, text in zip(members, written.numpy(), strict=False):
                found[member] = text.decode("utf-8", "replace")
            done += len(members)
            if progress:
                progress(done)
        return self.targets.rows(found)

    def measures(self, texts, second_texts=None):
        """Measures of the model itself: none."""
        return {}


class TextToText(Glue):
    """T5 and the texts of the labels of a task."""

    kinds = (WrittenNumbers, WrittenClasses)

    def check(self):
        super().check()
        if self.config.class_weights != "none" or self.config.model_arguments.keys() - {"dropout", "attention_dropout"}:
            raise ValueError(
                "T5 has no head and no class weights. "
                f"Received: model_arguments={self.config.model_arguments}, class_weights={self.config.class_weights!r}"
            )

    def begin(self, model):
        """Does nothing: numbers are written."""

    def make_targets(self, names=None):
        # T5's texts begin with column names: a finished run keeps those that it was trained with.
        config = self.config if self.data else self.run.read_config()
        return targets_of(config, names, self.data and self.data.train, self.kinds)

    def encode(self, corpus):
        texts = self.targets.texts
        return {
            "source": self.tokenizer.encode(texts.sources(corpus.texts, corpus.second_texts)),
            "target": self.tokenizer.encode(list(map(texts.target, corpus.labels))),
        }

    @property
    def longest(self):
        """The most tokens that are written."""
        words = [self.targets.texts.target(name) for name in self.targets.names[:-1]] or ["0.0", "-100.0"]
        return max(map(len, self.tokenizer.encode(words))) + 2

    def make_batches(self, num_replicas):
        config = self.config
        check_batch_size(config.batch_size, num_replicas)
        train, held = self.encode(self.data.train), self.encode(self.data.validation)
        lengths = np.array(list(map(len, train["source"])))
        buckets = choose_buckets(lengths, config.num_buckets)
        longest = max(map(len, held["source"]))
        target_length = max(self.longest, *(len(ids) for part in (train, held) for ids in part["target"]))
        common = dict(batch_size=config.batch_size, target_length=target_length, seed=config.seed)
        self.batches = TextBatches(train, bucket_lengths=buckets, training=True, **common)
        buckets = (*buckets, longest) if longest > buckets[-1] else buckets
        print(f"{self.tokenizer.vocabulary_size:,} pieces")
        return self.batches, TextBatches(held, bucket_lengths=buckets, training=False, **common)

    def make_model(self):
        config = self.config
        own = dict(dropout=config.model_arguments["dropout"], seed=config.seed, **attention_arguments(config))
        if config.decoder_attention == "own":
            own |= dict(decoder_attention=None, cross_attention=None)
        model = from_pretrained(config.checkpoint, **own)
        if not isinstance(model, T5):
            raise ValueError(
                f"--checkpoint must be a T5 with its decoder. Received: {config.checkpoint}, of an encoder alone"
            )
        return model

    def make_trainer(self, model):
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
        return Model(inputs, model(inputs), name="trainer")

    def make_loss(self):
        return LabelSmoothedCrossentropy(self.config.label_smoothing)

    def make_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def flops(self, model):
        """Operations on a text of `--max-length` and the longest label."""
        lengths = {"source": self.config.max_length, "target": self.longest}
        return count_flops(lambda: model({name: tf.ones((1, length), tf.int32) for name, length in lengths.items()}))

    def scores(self, model):
        predictor, corpus = self.predictor(model), self.data.validation
        labels = self.targets.of(corpus)

        def score(model):
            return self.targets.measure(labels, predictor(corpus.texts, corpus.second_texts))["score"]

        return [EpochScore(score, "val_score")]

    def lengths(self, texts, second_texts=None):
        return map(len, self.uncut_tokenizer.encode(self.targets.texts.sources(texts, second_texts)))

    def predictor(self, model):
        return TextPredictor(model, self.tokenizer, self.targets, self.config.max_length, self.longest)

    def write(self, model, folder):
        """Writes the SavedModel: `classes` `(B, 1)`, labels, or other texts as they are, and `scores`; or `values`.

        Its output `is_cut` `(B,)` is true where a text was longer than the model reads.
        """
        predictor, texts = self.predictor(model), self.targets.texts
        most, uncut_tokenizer = self.config.max_length, self.uncut_tokenizer
        names = ("text", "second_text") if self.is_pair else ("text",)

        def answer(*sides):
            ids = uncut_tokenizer(tf.strings.join(texts.source(sides)))
            is_cut, kept = tf.reduce_any(ids[:, most:] != 0, axis=1), ids[:, :most]
            is_end = is_cut[:, None] & (tf.range(tf.shape(kept)[1]) == most - 1)
            written, scores = predictor.written(tf.where(is_end, uncut_tokenizer.eos_id, kept))
            cut = {"is_cut": is_cut}
            if not self.targets.names:
                is_number = tf.strings.regex_full_match(written, r"-?[0-9]+([.][0-9]+)?")
                return {"values": tf.strings.to_number(tf.where(is_number, written, "-1"))} | cut
            classes = written
            for name in self.targets.names[:-1]:
                classes = tf.where(written == texts.target(name), name, classes)
            return {"classes": classes[:, None], "scores": scores[:, None]} | cut

        specs = [tf.TensorSpec((None,), tf.string, name=name) for name in names]
        requests = [dict.fromkeys(names, np.array(["a"] * size, object)) for size in (1, 8)]
        signatures, warm = {"serving_default": (answer, specs)}, {"serving_default": requests}
        return save_signatures(signatures, folder, [uncut_tokenizer, self.tokenizer], self.config.run, warm)
