"""Training of a classifier of documents whose words have scores, and its scores."""

import json
import pathlib

import keras

from keras_headattn._files import checksum, write_atomically
from keras_headattn.data import choose_buckets
from keras_headattn.models import Bert
from keras_headattn.training import Model
from recipes.engine.data import learn_tokenizer
from recipes.engine.encoders import check_encoder, kept_tokenizer, tokenizer_of
from recipes.engine.modelling import make_optimizer
from recipes.engine.progress import progress_bar
from recipes.engine.report import report_one_class, write_confusion
from recipes.rationales.batches import DocumentBatches
from recipes.rationales.data import classes_of, describe, document_of, labels_of, query_of, read_corpora, read_split
from recipes.rationales.metrics import performance
from recipes.rationales.modelling import make_classifier, make_encoder
from recipes.rationales.predicting import load_predictor
from recipes.rationales.samples import show_samples
from recipes.rationales.states import KeptStates, WordStates
from recipes.rationales.words import WordPieces, report_cut


def train(config, session):
    """Trains a classifier, or goes on; then scores it."""
    check(config)
    with session(config) as run:
        data = run.read(lambda: read_corpora(config), describe)
        classes, choices = classes_of(data.train)
        run.keep("labels.txt", "".join(f"{name}\n" for name in classes))
        tokenizer = run.once(lambda: make_tokenizer(run, config, data.train))
        if run.is_unfinished():
            fit(run, data, tokenizer, classes, choices)
        run.report(lambda model: score(run, config, load_predictor(run, config, model), data.tests, data.train))
        command = "python -m recipes.rationales"
        run.close([f"{command} score {config.run}", f"{command} explain {config.run} FILE"])


def check(config):
    """Makes a model and an optimizer, thrown away: wrong settings are reported before data are read."""
    check_encoder(config)
    if config.size:
        make_classifier(config, Bert.from_size(config.size, vocabulary_size=8, pad_id=0, pooler=False), 2)
    adam(config)


def adam(config):
    """Returns the optimizer."""
    return make_optimizer(config, keras.optimizers.Adam, learning_rate=config.learning_rate)


def make_tokenizer(run, config, train):
    """Returns the tokenizer of a run: the checkpoint's, or one that is learned from the training set.

    It is kept in the run's folder.
    """

    def make():
        if config.checkpoint:
            return tokenizer_of(config.checkpoint)
        texts = [" ".join(document_of(train, annotation) + query_of(annotation)) for annotation in train.annotations]
        return learn_tokenizer(run.folder / "vocab.txt", texts, "wordpieces", config.vocabulary_size)

    return kept_tokenizer(run.folder / "tokenizer.json", make)


def fit(run, data, tokenizer, classes, choices):
    """Trains on documents with queries, or with each of the choices of a query: on states of a frozen encoder."""
    config, parts = run.config, (data.train, data.validation)
    encoder = make_encoder(config, tokenizer)
    pieces = WordPieces(tokenizer, config.window, config.max_windows)
    sequences = [encode(part, pieces, choices) for part in parts]
    for name, part, encoded in zip(("train", "validation"), parts, sequences, strict=True):
        sizes = [len(document_of(part, annotation)) for annotation in part.annotations]
        report_cut(name, sizes, [sequence.num_words for sequence in encoded[::choices]])
    both = [sequence for encoded in sequences for sequence in encoded]
    is_trained = config.model_argument("trainable_layers")
    states = None if is_trained else kept_states(run, config, encoder)
    if states:
        states.keep(both, config.quiet)
    buckets = choose_buckets(list(map(len, both)), config.num_buckets)
    common = dict(bucket_lengths=buckets, batch_size=config.batch_size, num_replicas=run.num_replicas, states=states)
    common |= dict(seed=config.seed, pad_id=tokenizer.pad_id, choices=choices)
    batches, validation = (
        DocumentBatches(encoded, labels_of(part, classes), training=part is parts[0], **common)
        for part, encoded in zip(parts, sequences, strict=True)
    )

    def model():
        keras.utils.set_random_seed(config.seed)  # with or without states on the disk
        return run.load_pruned() or make_classifier(config, encoder, len(classes) // choices)

    run.fit(
        batches,
        validation,
        model,
        trainer=lambda model: make_trainer(model if is_trained else model.reader, batches[0][0], choices),
        optimizer=lambda model: adam(config),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        throughput=(lambda: batches.num_examples, "documents_per_second"),
        jit_compile=False,  # XLA lacks cuDNN's LSTM kernels, and compiles an LSTM slowly for a CPU
    )


def make_trainer(model, columns, choices):
    """Returns the model that is trained around a classifier, or around its part that reads states.

    `columns` are the arrays of a batch by name.
    """
    inputs = {
        name: keras.Input((choices, *free_axes(array)), dtype=array.dtype.name, name=name)
        for name, array in columns.items()
    }
    return Model(inputs, model(inputs), name="trainer")


def encode(corpus, pieces, choices=1):
    """Returns the `Sequence` of each annotation of a corpus, or of each of its choices."""
    pairs = [(document_of(corpus, annotation), query_of(annotation)) for annotation in corpus.annotations]
    pieces.learn([words for pair in pairs for words in pair])
    return [sequence for pair in pairs for sequence in pieces.of_choices(*pair, choices)]


def kept_states(run, config, encoder):
    """Returns the `KeptStates` of the frozen encoder."""
    made_of = dict(size=config.size, attention=config.attention, attention_arguments=config.attention_arguments)
    made_of = json.loads(json.dumps(made_of | dict(num_heads=config.num_heads, encoder_seed=config.encoder_seed)))
    made_of["checkpoint"] = config.checkpoint and checksum_of_weights(config.checkpoint)
    if config.size:
        made_of["vocabulary"] = checksum(run.folder / "tokenizer.json")
    # States do not depend on the head.
    return KeptStates(config.states_folder, made_of, lambda: WordStates(make_classifier(config, encoder, 1)))


def checksum_of_weights(checkpoint):
    """Returns the checksum of the largest file of a checkpoint."""
    files = [path for path in pathlib.Path(checkpoint).iterdir() if path.is_file()]
    return checksum(max(files, key=lambda path: path.stat().st_size))


def free_axes(array):
    """Returns the shape of an array after its first two axes; those of words and windows are free."""
    if array.ndim == 5:  # states
        return (None, *array.shape[3:])
    return (None,) * (array.ndim - 2)


def evaluate(run, config, files=None):
    """Scores a finished run on the test set that the settings name. There are no `files` to give."""
    tests = run.name_results(config, {"test": read_split(config, "test")}, ("eraser", "test_examples"))
    score(run, config, load_predictor(run, config, run.load_model()), tests)


def score(run, config, predictor, tests, train=None):
    """Classifies the documents of test sets, prints scores, and writes them. With the training set it shows samples."""
    classes = predictor.classes
    for name, corpus in tests.items():
        documents = [document_of(corpus, annotation) for annotation in corpus.annotations]
        queries = [query_of(annotation) for annotation in corpus.annotations]
        report_cut(name, list(map(len, documents)), predictor.num_words(documents, queries))
        predicted = predictor(documents, queries, progress_bar(f"Reading {name}", len(corpus), config.quiet))
        labels = labels_of(corpus, classes)
        scores = performance(labels, predicted) | {"examples": len(corpus)}
        write_confusion(run.results / name, labels, predicted, classes)
        write_atomically(run.results / name / "scores.json", (json.dumps(scores, indent=2) + "\n").encode("utf-8"))
        print(f"{name}: accuracy {scores['accuracy']:.4f}, f1_macro {scores['f1_macro']:.4f}")
        report_one_class(name, labels, predicted, classes)
        if train is not None and config.samples and not config.quiet:
            show_samples(predictor, corpus, config.samples, train.rationale_share or 0.2, config.seed)
