"""Lists of sentences, and sentences as words."""

import re
import unicodedata


def check_sentences(**lists):
    """Returns the arguments as lists of str of the same length, which is not 0."""
    for name, sentences in lists.items():
        if isinstance(sentences, str | bytes):
            raise ValueError(f"`{name}` must be a list of sentences. Received: {sentences!r}")
    lists = {name: list(sentences) for name, sentences in lists.items()}
    counts = ", ".join(f"{len(sentences)} {name}" for name, sentences in lists.items())
    if len({len(sentences) for sentences in lists.values()}) > 1:
        raise ValueError(f"The lists must be equally long. Received: {counts}")
    for name, sentences in lists.items():
        if not sentences:
            raise ValueError(f"There must be at least one sentence. Received: {counts}")
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise ValueError(
                    f"`{name}` must hold one str for each sentence, no bytes or lists. Received: {sentence!r}"
                )
    return list(lists.values())


def check_references(hypotheses, references):
    """Returns hypotheses and, for each, a list of references."""
    several = references
    if not isinstance(references, str | bytes):
        several = [list(entry) if isinstance(entry, list | tuple) else [entry] for entry in references]
        references = [group[0] if group else None for group in several]
    hypotheses, _ = check_sentences(hypotheses=hypotheses, references=references)
    check_sentences(references=[reference for group in several for reference in group])
    return hypotheses, several


def words(sentence: str) -> list[str]:
    """Splits a sentence into lower-case runs of letters (of any alphabet) and digits, without punctuation.

    It suits languages that separate words by spaces.

    Args:
        sentence: str.

    >>> words("Zwei Hunde überqueren die Straße.")
    ['zwei', 'hunde', 'überqueren', 'die', 'straße']
    """
    # Composed first: a letter followed by a combining umlaut would be split there.
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", sentence).lower())
