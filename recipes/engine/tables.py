"""Markdown tables, and means of several seeds."""

import statistics


def table(columns, rows):
    """Returns the lines of a Markdown table; each row is a name and the entries of the columns.

    >>> print(*table(["loss"], [["plain", "0.5"]]), sep="\\n")
    | | loss |
    |---|---:|
    | plain | 0.5 |
    """
    return [
        f"| | {' | '.join(columns)} |",
        "|---|" + "---:|" * len(columns),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def mean_text(values, number="{:.4f}".format):
    """Returns the mean and, of several, standard deviation of the values that are not `None`; a dash of none.

    >>> mean_text([0.5, None, 0.7]), mean_text([])
    ('0.6000 ± 0.1414', '–')
    """
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    text = number(statistics.fmean(values))
    return f"{text} ± {number(statistics.stdev(values))}" if len(values) > 1 else text
