import types
from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn.metrics._score import Score, mean_score, package_version
from keras_headattn.metrics._sentences import check_references, words

# The languages of nltk's Snowball stemmers.
STEMMERS = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}


def meteor(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], language: str = "en"
) -> Score:
    """Computes METEOR in percent with nltk, averaged over sentences.

    Words match if they are equal, if their stems are, or (in English) if WordNet calls them synonyms. WordNet is used
    if nltk finds it, and never downloaded. The signature names the stages; only scores of the same stages are
    comparable, and none with those of the Java METEOR 1.5. Equal sentences of `n` words score
    `100 * (1 - 0.5 / n ** 3)`.

    Source: Banerjee & Lavie 2005, "METEOR: an automatic metric for MT evaluation with improved correlation with human
    judgments".

    Args:
        hypotheses, references: see `bleu`, also for errors. The best of several references counts.
        language: two-letter code of the language. Without a Snowball stemmer for it, words match by equality alone.

    >>> meteor(["two dogs run"], ["two dogs running"]).value > 98
    True
    """
    hypotheses, references = check_references(hypotheses, references)
    nltk_meteor = optional_import("nltk.translate.meteor_score", "metrics")
    stemmer, stem = _stemmer(language)
    wordnet, synonyms = _wordnet(language)
    scores = [
        nltk_meteor.meteor_score(list(map(words, several)), words(hypothesis), stemmer=stemmer, wordnet=wordnet)
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    signature = f"case:lc|tok:unicode-words|stem:{stem}|synonyms:{synonyms}|{package_version('nltk')}"
    return mean_score("METEOR", scores, signature)


def _stemmer(language):
    if language not in STEMMERS:
        return types.SimpleNamespace(stem=lambda word: word), "no"
    return optional_import("nltk.stem", "metrics").SnowballStemmer(STEMMERS[language]), f"snowball-{language}"


def _wordnet(language):
    wordnet = optional_import("nltk.corpus", "metrics").wordnet
    if language == "en":
        try:
            wordnet.ensure_loaded()
            return wordnet, "wordnet"
        except LookupError:
            pass
    return types.SimpleNamespace(synsets=lambda word: []), "no"
