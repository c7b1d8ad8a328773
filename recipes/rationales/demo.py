"""Reviews made by code, with the words that say whether they are good: documents with known evidence."""

import numpy as np

from recipes.rationales.eraser import Annotation, EraserCorpus, Evidence

QUERY = "What is the sentiment of this review ?"
SUBJECTS = "plot acting music camera dialogue ending cast script humour pace director sound".split()
ADVERBS = "really quite rather truly simply often".split()
OPINIONS = {
    "NEG": "dull awful boring clumsy tiresome silly flat stale messy weak dreadful lifeless".split(),
    "POS": "great superb charming clever moving brilliant fresh gripping funny strong elegant vivid".split(),
}
FACTS = "opens lasts ends starts stops returns moves turns waits continues".split()
TIMES = "early late twice again slowly today tonight once then later".split()


def reviews(train_size=600, validation_size=100, test_size=100, seed=0):
    """Makes the splits "train", "val" and "test" of reviews, `EraserCorpus` with the classes NEG and POS.

    A review has two to nine sentences, one or two of which say an opinion: the evidence is its adverb and adjective.

    >>> corpus = reviews(4, 2, 2)["train"]
    >>> annotation = corpus.annotations[0]
    >>> annotation.classification, len(annotation.evidences) in (1, 2)
    ('NEG', True)
    """
    sizes = {"train": train_size, "val": validation_size, "test": test_size}
    return {
        name: _corpus(name, size, np.random.default_rng([seed, split]))
        for split, (name, size) in enumerate(sizes.items())
    }


def _corpus(name, size, rng):
    documents, annotations = {}, []
    for index in range(size):
        docid = f"{name}-{index}"
        label = list(OPINIONS)[index % 2]
        sentences, spans = _review(label, rng)
        words = [word for sentence in sentences for word in sentence]
        groups = tuple((Evidence(docid, *span, text=" ".join(words[slice(*span)])),) for span in spans)
        documents[docid] = sentences
        annotations.append(Annotation(docid, QUERY, label, groups, (docid,)))
    return EraserCorpus(annotations, documents, f"reviews, {name}")


def _review(label, rng):
    """Draws sentences, lists of words, and the spans of opinions."""
    total = int(rng.integers(2, 10))
    opinions = set(rng.permutation(total)[: int(rng.integers(1, 3))].tolist())
    sentences, spans, words = [], [], 0
    for index in range(total):
        subject = ["the", str(rng.choice(SUBJECTS))]
        if index in opinions:
            sentence = [*subject, "is", str(rng.choice(ADVERBS)), str(rng.choice(OPINIONS[label])), "."]
            spans.append((words + 3, words + 5))
        else:
            sentence = [*subject, str(rng.choice(FACTS)), str(rng.choice(TIMES)), "."]
        sentences.append(sentence)
        words += len(sentence)
    return sentences, spans
