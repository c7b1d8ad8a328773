"""A translator's training, its scores and its SavedModels."""

import functools

import keras
import tensorflow as tf

from keras_headattn._files import read_lines
from keras_headattn.data import Records
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.optimizers import InverseSquareRoot
from keras_headattn.serving import export_id_translator, export_translator, write_examples
from keras_headattn.text import LanguagePair
from keras_headattn.training import AttentionImages, ClusterReport, EpochScore, HeadStatistics
from recipes.engine import lora
from recipes.engine.data import fingerprint
from recipes.engine.exporting import smoke_test
from recipes.engine.modelling import count_flops, fitting_warmup, make_optimizer, token_trainer
from recipes.engine.records import fingerprint_of, is_complete
from recipes.translate import evaluation
from recipes.translate.batches import make_batches
from recipes.translate.corpora import check_sizes, load_corpora, load_tests, read_files
from recipes.translate.modelling import make_attentions, make_transformer
from recipes.translate.prepare import prepare, sample_pairs, take_files
from recipes.translate.settings import DECODING, MOST_WARMUP, files_of_tests
from recipes.translate.tensorboard import attention_of_samples, flops_utilization, of_first_sample, show_embeddings
from recipes.translate.text import check_moses, load_shortlist, load_text, load_translator, make_translator
from recipes.translate.text_maps import redundancy

SMOKE_TEST = """
found = call(text=tf.constant(given))
result = [[text.decode() for text in found["translations"].numpy()], found["scores"].numpy().tolist()]
"""


def train(config, session):
    """Trains a Transformer to translate, or goes on; then scores and exports it."""
    check(config)
    with session(config) as run:
        corpora = run.read(lambda: load_corpora(config), lambda corpora: describe(corpora, config))
        text = run.once(lambda: learn_text(run, config, corpora))
        if run.is_unfinished():
            fit(run, corpora, text)
        run.report(lambda model: score(run, config, model, corpora.tests, config.tensorboard))
        run.export(lambda model, *folders: write(run, config, model, *folders, corpora))
        run.close()


def check(config):
    """Makes a model and an optimizer, thrown away, and tries metrics: errors are reported before data are read."""
    if config.model_arguments and not config.pretrained:
        make_transformer(config, 8, 8)
    evaluation.check_metrics(config.metrics, config.target_language, config.embeddings, config.comet_model)
    if config.moses:
        check_moses(config.languages)
    make_attentions(config)
    adam(config, 1)


def describe(corpora, config):
    """Returns the sizes and checksums of the training and validation sets; those of records once they are complete."""
    record, folder = fingerprint(corpora), config.records
    return record | ({"training": fingerprint_of(Records(folder))} if folder and is_complete(folder) else {})


def learn_text(run, config, corpora):
    """Learns the vocabularies, and the shortlist if there is to be one; returns the `LanguagePair`."""
    pairs = corpora.train
    if config.records:
        prepare(config)
        take_files(config.records, LanguagePair.file_names(config.one_vocabulary, config.moses), run.folder)
        run.claim_data(describe(corpora, config))
    text = load_text(run, config, pairs and sample_pairs(pairs, pairs.name, config.vocabulary_sentences, config.seed))
    load_shortlist(run, config, text, pairs)
    return text


def fit(run, corpora, text):
    """Trains on batches of sentence pairs of like lengths."""
    config = run.config
    batches, validation = make_batches(config, corpora, text, run.num_replicas)
    steps = len(batches)
    ids = tf.ones((1, min(30, config.max_length)), tf.int32)  # operations are counted as by Wu et al. 2020

    def model():
        sizes = text.source.vocabulary_size, text.target.vocabulary_size
        transformer = run.load_pruned() or make_transformer(config, *sizes)
        lora.adapt(transformer, config)
        return transformer

    run.fit(
        batches,
        validation,
        model,
        trainer=functools.partial(token_trainer, columns=("source", "target")),
        optimizer=lambda model: adam(config, steps),
        loss=LabelSmoothedCrossentropy(config.label_smoothing),
        metrics=lambda: make_metrics(config),
        throughput=(lambda: batches.num_tokens["target"], "tokens_per_second"),
        scores=lambda model: validation_scores(config, model, text, corpora.validation),
        reports=lambda model: reports(config, model, batches),
        shown=lambda model: pictures(run, model, text, corpora.validation),
        warmup=warmup_steps(config, steps),
        merge=lambda model: lora.merge(model, config),
        flops=lambda model: count_flops(lambda: model.states({"source": ids, "target": ids})),
    )


def validation_scores(config, model, text, validation):
    """Returns the callback that scores translations of some validation sentences, if the settings ask for it."""
    count = config.validation_sentences
    if not count:
        return []
    references = text.references(validation.target[:count])
    translate = make_translator(model, text, **config.greedy_decoding)
    (bleu,) = evaluation.named_metrics(["bleu"], config.target_language)

    def measure(model):
        return bleu([translation.text for translation in translate(validation.source[:count])], references).value

    return [EpochScore(measure, "val_bleu")]


def reports(config, model, batches):
    """Returns callbacks that report the share of the devices' speed and the clusters of heads, where there are any."""
    utilization = [flops_utilization(model, batches, config.peak_flops)] if config.peak_flops else []
    attentions = config.attention, config.decoder_attention, config.cross_attention
    return utilization + ([ClusterReport()] if "disentangled_mask" in attentions else [])


def pictures(run, model, text, validation):
    """Returns callbacks that show what heads do and, if the settings ask for it, where they look."""
    if "images" not in run.config.tensorboard:
        return [HeadStatistics(run.log_dir)]
    attend = attention_of_samples(model, text, validation)
    statistics = HeadStatistics(run.log_dir, of_first_sample(attend), run.folder / "heads.png")
    return [statistics, AttentionImages(run.log_dir, attend)]


def adam(config, steps):
    """Returns the optimizer, for so many steps an epoch."""
    schedule = InverseSquareRoot(config.learning_rate, warmup_steps(config, steps))
    return make_optimizer(config, keras.optimizers.Adam, learning_rate=schedule)


def warmup_steps(config, steps):
    """Returns the steps in which the learning rate rises, for so many steps an epoch."""
    return fitting_warmup(config, MOST_WARMUP, config.epochs * steps)


def make_metrics(config):
    """Returns a list of the accuracy, empty where logits are never whole."""
    if config.model_argument("loss_chunk_size") is not None:
        return []
    if config.precision != "float32":
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    # The same in fewer passes over the logits, but it counts ties, which are common in 16 bits, as hits.
    return [keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="accuracy")]


def evaluate(run, config, files=None):
    """Scores a finished run on the test sets of files, or for `None` on its own."""
    if files is None:
        tests = load_tests(config)
    else:
        how = config.columns, config.max_sentences, config.languages
        tests = {name: read_files(pair, *how) for name, pair in files_of_tests(files).items()}
    if not tests:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    check_sizes(tests.values())
    tests = run.name_results(config, tests, (*DECODING, "iwslt", "tfds"), files, ["columns"])
    score(run, config, run.load_model(), tests)


def score(run, config, model, tests, shown=()):
    """Translates test sets, prints the scores, and writes them with the translations; shows embeddings if asked to."""
    translator = load_translator(run, config, model)
    if "projector" in shown:
        show_embeddings(run, model, translator.text)
    functions = evaluation.named_metrics(config.metrics, config.target_language, config.embeddings, config.comet_model)
    decoding = config.decoding_signature + ("|lowercase:True" if config.lowercase else "")
    of_heads = functools.partial(redundancy, model, translator.text) if "redundancy" in config.metrics else None
    evaluation.evaluate(translator, tests, functions, decoding, run.results, config.quiet, of_heads)


def write(run, config, model, folder, ids_folder, corpora=None):
    """Writes SavedModels of text and of token ids; tries the first on sentences of test sets."""
    translator = load_translator(run, config, model)
    text, searcher = translator.text, translator.searcher
    arguments = dict(config.export_arguments, run=config.run, shortlist=translator.shortlist)
    length = translator.max_source_length
    path = export_translator(searcher, text.source, text.target, folder, max_source_length=length, **arguments)
    del arguments["attention"]
    export_id_translator(searcher, ids_folder, **arguments)
    if corpora:
        sentences = [sentence for corpus in corpora.tests.values() for sentence in corpus.source]
    else:
        paths = sorted(run.results.glob("*/sources.txt"))
        sentences = [line for path in paths for line in read_lines(path) if line]
    step = max(1, len(sentences) // max(1, config.samples))
    # The SavedModel does not include Moses' steps: it takes text that has gone through them.
    if samples := text.prepare_source(sentences[::step][: config.samples]):
        write_examples(path, [{"text": sample} for sample in samples])
        outputs = smoke_test(path, SMOKE_TEST, samples, "tensorflow_text")
        for source, translation, score in zip(samples, *outputs, strict=True):
            print(f"  {source}\n    -> {translation}  ({score:.3f})")
