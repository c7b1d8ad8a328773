import itertools
from collections.abc import Sequence

from headattn_io.optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_references, check_sentences


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
    max_ngram_order: int = 4,
) -> Score:
    """Corpus BLEU by sacrebleu.

    Source: Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation"; Post 2018,
    "A call for clarity in reporting BLEU scores".

    Args:
        hypotheses: list of str, the translations as plain text.
        references: list of str, one for each hypothesis; or of lists of str.
        tokenize: str, sacrebleu's name of a tokenizer. Default `"13a"`, that of WMT; `"none"` for tokenized
            text.
        lowercase: bool, whether case is ignored. Default `False`.
        max_ngram_order: int, words of the longest n-grams. Default 4; with n other than that the score is called
            BLEU-n.

    Returns:
        `Score`, from 0 to 100.

    Raises:
        ValueError: if there are no sentences, not as many hypotheses as references, no such tokenizer, or for an order
            below 1.
        ImportError: if sacrebleu is missing.

    >>> round(bleu(["the cat is on the mat"], ["the cat is on the mat"]).value)
    100
    """
    hypotheses, references = check_references(hypotheses, references)
    check_positive("max_ngram_order", max_ngram_order)
    sacrebleu = optional_import("sacrebleu.metrics", "metrics")
    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        names = ", ".join(sorted(sacrebleu.BLEU.TOKENIZERS))
        raise ValueError(f"`tokenize` must be one of {names}. Received: tokenize={tokenize!r}")
    # Forced, as sacrebleu warns of tokenized text, also where it is told not to tokenize.
    metric = sacrebleu.BLEU(
        tokenize=tokenize, lowercase=lowercase, force=tokenize == "none", max_ngram_order=max_ngram_order
    )
    score = metric.corpus_score(hypotheses, as_streams(references))
    name = "BLEU" if max_ngram_order == 4 else f"BLEU-{max_ngram_order}"
    return Score(name, score.score, metric.get_signature().format())


def as_streams(references):
    """Returns references as sacrebleu takes them: the first of each hypothesis, the second, and so on, `None` for none.

    >>> as_streams([["a", "b"], ["c"]])
    [['a', 'c'], ['b', None]]
    """
    return [list(stream) for stream in itertools.zip_longest(*references)]


def tokenized_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "en") -> Score:
    """BLEU of lower-cased Moses tokens, as papers on Multi30k report it.

    Text is lower-cased, its punctuation normalised, then tokenized, in the order in which Multi30k itself
    was. It must not be compared with `bleu`.

    Args:
        hypotheses: list of str, the translations as plain text.
        references: list of str, one for each hypothesis, as plain text.
        language: str, two-letter code of the language of both. Default `"en"`.

    Returns:
        `Score`, from 0 to 100.

    Raises:
        ValueError: if there are no sentences, or not as many hypotheses as references.
        ImportError: if sacrebleu or sacremoses is missing.

    >>> round(tokenized_bleu(["Ein Hund läuft."], ["ein Hund läuft ."], language="de").value)
    100
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    moses = optional_import("sacremoses", "metrics")
    normalizer, tokenizer = moses.MosesPunctNormalizer(language), moses.MosesTokenizer(language)

    def tokens(sentence):
        return tokenizer.tokenize(normalizer.normalize(sentence.lower()), return_str=True, escape=False)

    score = bleu([*map(tokens, hypotheses)], [*map(tokens, references)], tokenize="none", lowercase=True)
    signature = f"{score.signature}|moses:norm-tok-{language}|{package_version('sacremoses')}"
    return Score("tokenized BLEU", score.value, signature)
