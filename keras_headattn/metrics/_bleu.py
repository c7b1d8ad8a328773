import itertools
import re
from collections.abc import Sequence

from keras_headattn._optional import optional_import
from keras_headattn._validation import check_positive
from keras_headattn.metrics._score import Score, package_version
from keras_headattn.metrics._sentences import check_references, check_sentences

# Takes both neighbours, as the papers' scripts do, so that of `a-b-c` only the first is split.
HYPHEN = re.compile(r"(\S)-(\S)")


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str = "13a",
    lowercase: bool = False,
    max_ngram_order: int = 4,
) -> Score:
    """Computes corpus BLEU, from 0 to 100, with sacrebleu.

    Of single sentences, n-grams longer than the sentence are left out.

    Source: Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation"; Post 2018, "A call
    for clarity in reporting BLEU scores".

    Args:
        hypotheses: translations as plain text.
        references: a str for each hypothesis, or a list of str.
        tokenize: sacrebleu's name of a tokenizer; `"none"` for tokenized text.
        lowercase: True to ignore case.
        max_ngram_order: length of the longest n-grams; the score is called BLEU-n if it is not 4.

    Raises:
        ValueError: for no sentences, unequal numbers of hypotheses and references, or invalid options.
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
    how = dict(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none", max_ngram_order=max_ngram_order)
    metric = sacrebleu.BLEU(**how)
    score = metric.corpus_score(hypotheses, as_streams(references))
    name = "BLEU" if max_ngram_order == 4 else f"BLEU-{max_ngram_order}"
    single = by_sentence(sacrebleu.BLEU(effective_order=True, **how), hypotheses, references)
    return Score(name, score.score, metric.get_signature().format(), single)


def by_sentence(metric, hypotheses, references):
    """Returns the scores of single sentences by a metric of sacrebleu."""
    pairs = zip(hypotheses, references, strict=True)
    return tuple(metric.sentence_score(hypothesis, several).score for hypothesis, several in pairs)


def as_streams(references):
    """Returns references as sacrebleu takes them: the first of each hypothesis, the second, ..., `None` for none.

    >>> as_streams([["a", "b"], ["c"]])
    [['a', 'c'], ['b', None]]
    """
    return [list(stream) for stream in itertools.zip_longest(*references)]


def tokenized_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    lowercase: bool = True,
    split_compounds: bool = False,
) -> Score:
    """Computes BLEU of Moses tokens, from 0 to 100, lower-cased as papers on Multi30k report it.

    Text is lower-cased, its punctuation normalised, then tokenized, as Multi30k was. Not comparable with `bleu`. Needs
    sacremoses too.

    Source of split compounds: Vaswani et al. 2017, "Attention is all you need", whose scores on WMT14 English to German
    are of such tokens, with case.

    Args:
        hypotheses, references: see `bleu`; a single reference for each hypothesis.
        language: two-letter code of the language.
        lowercase: True to ignore case.
        split_compounds: True to make `Vor-Ort` three tokens, `Vor ##AT##-##AT## Ort`, which raises the score.

    >>> round(tokenized_bleu(["Ein Hund läuft."], ["ein Hund läuft ."], language="de").value)
    100
    """
    hypotheses, references = check_sentences(hypotheses=hypotheses, references=references)
    moses = optional_import("sacremoses", "metrics")
    normalizer, tokenizer = moses.MosesPunctNormalizer(language), moses.MosesTokenizer(language)

    def tokens(sentence):
        sentence = normalizer.normalize(sentence.lower() if lowercase else sentence)
        sentence = tokenizer.tokenize(sentence, return_str=True, escape=False)
        return HYPHEN.sub(r"\1 ##AT##-##AT## \2", sentence) if split_compounds else sentence

    score = bleu([*map(tokens, hypotheses)], [*map(tokens, references)], tokenize="none", lowercase=lowercase)
    signature = f"{score.signature}|moses:norm-tok-{language}|{package_version('sacremoses')}"
    name = "compound-split BLEU" if split_compounds else "tokenized BLEU"
    return Score(name, score.value, signature, score.by_sentence)
