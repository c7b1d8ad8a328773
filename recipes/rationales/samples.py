"""Documents of a test set with the words that a model looks at, for people."""

import numpy as np

from keras_headattn.analysis import top_words
from recipes.rationales.data import document_of, query_of
from recipes.rationales.metrics import as_spans

MOST_SHOWN = 40  # words of a document


def show_samples(predictor, corpus, count, share, seed):
    """Prints so many documents with those words in brackets that the pooling attends to most: this share of them.

    `predictor` is a `Predictor`, `corpus` an `EraserCorpus`.
    """
    few = corpus.sample(count, seed)
    queries = [query_of(annotation) for annotation in few.annotations]
    whole = [document_of(few, annotation) for annotation in few.annotations]
    documents = [words[:read] for words, read in zip(whole, predictor.num_words(whole, queries), strict=True)]
    scores = predictor.scores(documents, queries)["attention"]
    alike = len({annotation.query for annotation in corpus.annotations}) == 1
    print("In brackets are the words that the pooling attends to most:")
    for annotation, words, row, odds in zip(
        few.annotations, documents, scores, predictor(documents, queries), strict=True
    ):
        query = "" if alike or not annotation.query else f" | {annotation.query}"
        answer = f"{predictor.classes[odds.argmax()]} ({odds.max():.3f}), labelled {annotation.classification}"
        print(f"  {marked_text(words, row, share)}{query}\n    -> {answer}")


def marked_text(words, scores, share, most=MOST_SHOWN):
    """Joins words to a text, those with the highest scores in brackets.

    Of many words the `most` neighbours that have most together are shown.

    >>> marked_text("the plot is truly great .".split(), [0, 0.1, 0, 0.3, 0.6, 0], 0.3)
    'the plot is [truly great] .'
    >>> marked_text("the plot is truly great .".split(), [0, 0.1, 0, 0.3, 0.6, 0], 0.3, most=2)
    '... [truly great] ...'
    """
    chosen, begin, end = top_words(scores, share), 0, len(words)
    if len(words) > most:
        begin = int(np.convolve(scores, np.ones(most), "valid").argmax())
        end = begin + most
    shown = list(words[begin:end])
    for start, stop in as_spans(chosen[begin:end]):
        shown[start] = f"[{shown[start]}"
        shown[stop - 1] += "]"
    return " ".join(["..."] * (begin > 0) + shown + ["..."] * (end < len(words)))
