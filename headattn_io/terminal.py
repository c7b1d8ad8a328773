"""Text on terminals: bars of progress, times, and how wide a text is."""

import os
import sys
import unicodedata


def shows_bar() -> bool:
    """Whether standard output shows a bar that is drawn again and again, in colour: a terminal or a notebook does.

    Not if the environment variable `NO_COLOR` is set, or `TERM` is `dumb`.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return getattr(sys.stdout, "isatty", bool)() or "ipykernel" in sys.modules


def duration(seconds: float) -> str:
    """A time of which two digits matter.

    >>> duration(12.3), duration(400), duration(9000)
    ('12 s', '7 min', '2.5 h')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 99.5 else f"{minutes / 60:.1f} h"


def columns_of(text: str) -> int:
    """How many characters of a font of one width a text takes: Chinese, Japanese and Korean ones take two.

    >>> columns_of("Oslo"), columns_of("東京")
    (4, 4)
    """
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
