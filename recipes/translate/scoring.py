"""Log probabilities of given translations."""

import math
import sys

from recipes.engine.command import report_cut
from recipes.translate.corpora import read_files


def print_scores(task, files, by_token=False, size=1024):
    """Prints the log probability of each pair of files, natural logarithms, and a summary to standard error.

    Args:
        task: the `Translate` of a finished run.
        files: paths, source and target, or one of pairs.
        by_token: True to print each token and its score after a tab.
        size: int, pairs that are scored at a time.
    """
    corpus = read_files(files, task.config.columns, languages=task.config.languages)
    translator = task.translator(task.run.load_model())
    total, number, cut = 0.0, 0, []
    for start in range(0, len(corpus), size):
        part = corpus.source[start : start + size], corpus.target[start : start + size]
        for place, scored in enumerate(translator.score(*part), start + 1):
            tokens = [f"{token} {score:.4f}" for token, score in scored.token_scores] if by_token else []
            print(f"{scored.score:.4f}", *tokens, sep="\t", flush=True)
            total, number = total + scored.score, number + len(scored.token_scores)
            cut += [place] * scored.is_cut
    report_cut(cut, len(corpus), translator.max_source_length)
    if number:
        print(
            f"{len(corpus):,} pairs, {number:,} tokens: log probability {total / number:.4f} a token, "
            f"perplexity {math.exp(-total / number):.3f}",
            file=sys.stderr,
        )
