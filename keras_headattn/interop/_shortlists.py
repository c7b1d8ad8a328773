"""Lexical tables of other libraries."""

from typing import Any

from keras_headattn._files import Path, parse_number, read_lines
from keras_headattn.decoding import Shortlist
from keras_headattn.interop._plain import tokens_of


def read_shortlist(
    path: Path,
    source_tokenizer: Any,
    target_tokenizer: Any,
    candidates: int = 50,
    frequent: int = 100,
    size: int = 1000,
) -> Shortlist:
    """Reads a lexical table as Marian takes it, such as `lex.s2t`.

    Each line has a target piece, a source piece and the probability of the target given the source. Pieces outside the
    vocabularies are passed over.

    Args:
        path: str or path; `.gz` too.
        source_tokenizer, target_tokenizer: `SentencePieceTokenizer`.
        candidates: int, most target ids of each source id. Default 50.
        frequent: int, how many of the first target ids after the special ones are always in the list. Default 100.
        size: int, number of ids in a list, see `Shortlist`. Default 1000.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if a line has another form, or no line is of these vocabularies.
    """
    source_ids, target_ids = (
        {token: index for index, token in enumerate(tokens_of(tokenizer))}
        for tokenizer in (source_tokenizer, target_tokenizer)
    )
    sources, targets, probabilities = [], [], []
    for line_number, line in enumerate(read_lines(path), start=1):
        try:
            target, source, probability = line.split()
            probability = parse_number(probability)
            if not 0 <= probability < 1.001:  # sums of float32 may be above 1
                raise ValueError("no probability")
        except ValueError:
            raise ValueError(
                f"Line {line_number} of {path} must be a target piece, a source piece and a probability from 0 to 1. "
                f"Received: {line!r}"
            ) from None
        if source in source_ids and target in target_ids:
            sources.append(source_ids[source])
            targets.append(target_ids[target])
            probabilities.append(probability)
    if not sources:
        raise ValueError(f"The table must have pieces of the vocabularies. Received: {path} without one")
    special = {target_tokenizer.pad_id, target_tokenizer.bos_id, target_tokenizer.eos_id, target_tokenizer.unk_id}
    always = [index for index in range(target_tokenizer.vocabulary_size) if index not in special][:frequent]
    return Shortlist.from_probabilities(
        sources, targets, probabilities, source_tokenizer.vocabulary_size, candidates, always, size
    )
