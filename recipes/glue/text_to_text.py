"""Fine-tuning of T5, which writes its labels."""

import warnings

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
from recipes.engine import lora
from recipes.engine.data import check_batch_size
from recipes.engine.encoders import attention_arguments, fine_tuning_optimizer, warmup_steps
from recipes.engine.modelling import count_flops
from recipes.engine.texts.predicting import without_limit

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
        self.tokens_per_row = None if training else sum(map(len, self.targets)) / self.num_rows

    def make_batch(self, bucket, members):
        rows = self.rows[bucket]
        source = pad_ids([self.columns["source"][member] for member in members], rows, self.bucket_lengths[bucket])
        source[~source.any(axis=1), 0] = 1  # rows without ids
        target = pad_ids([self.targets[member] for member in members], rows, self.target_length)
        columns = {"source": source, "target": target}
        return teacher_forcing(columns, bos_id=START, tokens_per_row=self.tokens_per_row)


class LabelWriter:
    """Labels that a T5 writes for texts when called, as rows of `WrittenClasses`."""

    def __init__(self, model, tokenizer, targets, max_length, batch_size=64):
        self.tokenizer, self.targets = tokenizer, targets
        self.max_length, self.batch_size = max_length, batch_size
        self.searcher = Searcher(model, 1, 0.0, longest_label(targets, tokenizer), START, tokenizer.eos_id)
        self.search = tf.function(self.searcher, autograph=False, reduce_retracing=True)

    def written(self, ids):
        """Returns the texts that are written for ids `(B, n)`, and their probabilities, both `(B,)`."""
        outputs = self.search(ids)
        tokens = outputs["tokens"][:, 0]
        return self.tokenizer.detokenize(tokens), tf.exp(outputs["scores"][:, 0])

    def __call__(self, texts, second_texts=None, progress=None):
        sources = self.targets.texts.sources(texts, second_texts)
        predictions = [""] * len(sources)
        done = 0
        for members, ids in source_batches(
            self.tokenizer.encode(sources), source_lengths(self.max_length), self.batch_size, filler=1
        ):
            written, _ = self.written(tf.constant(ids))
            for member, text in zip(members, written.numpy(), strict=False):
                predictions[member] = text.decode("utf-8", "replace")
            done += len(members)
            if progress:
                progress(done)
        return self.targets.rows(predictions)

    def measures(self, texts, second_texts=None):
        """Returns measures of the model itself: none."""
        return {}

    def lengths(self, texts, second_texts=None):
        """Returns the number of tokens of each text or pair."""
        return map(len, without_limit(self.tokenizer).encode(self.targets.texts.sources(texts, second_texts)))


def check(config):
    """Checks that the settings ask for nothing that T5 has not."""
    if config.class_weights != "none" or config.model_arguments.keys() - {"dropout", "attention_dropout"}:
        raise ValueError(
            "T5 has no head and no class weights. "
            f"Received: model_arguments={config.model_arguments}, class_weights={config.class_weights!r}"
        )
    rate, usual = (settings.model_argument("attention_dropout") for settings in (config, type(config)()))
    if rate not in (usual, config.model_argument("dropout")):
        raise ValueError(f"T5 drops attention weights at its rate `dropout`. Received: attention_dropout={rate}")
    if config.optimizer == "electra":
        raise ValueError("--optimizer electra is for encoders. Received: a T5 as --checkpoint")


def fit(run, texts, targets, tokenizer):
    """Trains a T5 to write the labels of texts."""
    config = run.config
    batches, validation = make_batches(run, texts, targets, tokenizer)

    def model():
        network = run.load_pruned() or make_model(config)
        lora.adapt(network, config)
        return network

    def trainer(model):
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
        return Model(inputs, model(inputs), name="trainer")

    def scores(model):
        predictor, held_out = LabelWriter(model, tokenizer, targets, config.max_length), texts.validation
        labels = targets.of(held_out)

        def score(model):
            return targets.measure(labels, predictor(held_out.texts, held_out.second_texts))["score"]

        return [EpochScore(score, "val_score")]

    def flops(model):
        sizes = {"source": config.max_length, "target": longest_label(targets, tokenizer)}
        return count_flops(lambda: model({name: tf.ones((1, size), tf.int32) for name, size in sizes.items()}))

    run.fit(
        batches,
        validation,
        model,
        trainer=trainer,
        optimizer=lambda model: fine_tuning_optimizer(config, len(batches)),
        loss=LabelSmoothedCrossentropy(config.label_smoothing),
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        throughput=(lambda: batches.num_examples, "texts_per_second"),
        scores=scores,
        warmup=warmup_steps(config, len(batches)),
        merge=lambda model: lora.merge(model, config),
        flops=flops,
    )


def make_batches(run, texts, targets, tokenizer):
    """Returns `TextBatches` to train on and to validate on."""
    config = run.config
    check_batch_size(config.batch_size, run.num_replicas)
    train, held_out = (encode(part, targets, tokenizer) for part in (texts.train, texts.validation))
    buckets = choose_buckets(np.array(list(map(len, train["source"]))), config.num_buckets)
    longest = max(map(len, held_out["source"]))
    sizes = [len(ids) for part in (train, held_out) for ids in part["target"]]
    common = dict(batch_size=config.batch_size, seed=config.seed)
    common["target_length"] = max(longest_label(targets, tokenizer), *sizes)
    batches = TextBatches(train, bucket_lengths=buckets, training=True, **common)
    buckets = (*buckets, longest) if longest > buckets[-1] else buckets
    print(f"{tokenizer.vocabulary_size:,} pieces")
    return batches, TextBatches(held_out, bucket_lengths=buckets, training=False, **common)


def encode(corpus, targets, tokenizer):
    """Returns the ids of what T5 reads and writes of a `LabelledText`: dictionary of columns."""
    sources = targets.texts.sources(corpus.texts, corpus.second_texts)
    labels = map(targets.texts.target, corpus.labels)
    return {"source": tokenizer.encode(sources), "target": tokenizer.encode(list(labels))}


def longest_label(targets, tokenizer):
    """Returns the most tokens that are written."""
    words = [targets.texts.target(name) for name in targets.names[:-1]] or ["0.0", "-100.0"]
    return max(map(len, tokenizer.encode(words))) + 2


def make_model(config):
    """Returns the T5 of the checkpoint with the attention of the settings."""
    arguments = dict(dropout=config.model_arguments["dropout"], seed=config.seed, **attention_arguments(config))
    if config.decoder_attention == "own":
        arguments |= dict(decoder_attention=None, cross_attention=None)
    with warnings.catch_warnings():
        if not config.checkpoint_weights:
            warnings.simplefilter("ignore")
        model = from_pretrained(config.checkpoint, **arguments)
    if not isinstance(model, T5):
        raise ValueError(
            f"--checkpoint must be a T5 with its decoder. Received: {config.checkpoint}, of an encoder alone"
        )
    if not config.checkpoint_weights:
        model = T5.from_config(model.get_config())
        model.build()
    return model


def write(predictor, config, folder):
    """Writes the SavedModel: `classes` `(B, 1)`, labels, or other texts as they are, and `scores`; or `values`.

    Its output `is_cut` `(B,)` is true where a text was longer than the model reads.
    """
    targets, texts, most = predictor.targets, predictor.targets.texts, config.max_length
    uncut_tokenizer = without_limit(predictor.tokenizer)
    names = ("text", "second_text") if config.is_pair else ("text",)

    def answer(*sides):
        ids = uncut_tokenizer(tf.strings.join(texts.source(sides)))
        is_cut, kept = tf.reduce_any(ids[:, most:] != 0, axis=1), ids[:, :most]
        is_end = is_cut[:, None] & (tf.range(tf.shape(kept)[1]) == most - 1)
        written, scores = predictor.written(tf.where(is_end, uncut_tokenizer.eos_id, kept))
        cut = {"is_cut": is_cut}
        if not targets.names:
            is_number = tf.strings.regex_full_match(written, r"-?[0-9]+([.][0-9]+)?")
            return {"values": tf.strings.to_number(tf.where(is_number, written, "-1"))} | cut
        classes = written
        for name in targets.names[:-1]:
            classes = tf.where(written == texts.target(name), name, classes)
        return {"classes": classes[:, None], "scores": scores[:, None]} | cut

    specs = [tf.TensorSpec((None,), tf.string, name=name) for name in names]
    requests = [dict.fromkeys(names, np.array(["a"] * size, object)) for size in (1, 8)]
    signatures, warm = {"serving_default": (answer, specs)}, {"serving_default": requests}
    return save_signatures(signatures, folder, [uncut_tokenizer, predictor.tokenizer], config.run, warm)
