"""Progress bars, durations and text widths on terminals."""

import os
import sys
import unicodedata


def shows_bar() -> bool:
    """Returns True if standard output is a terminal or notebook that can redraw a coloured bar.

    `NO_COLOR`, or `TERM=dumb`, turns it off.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return getattr(sys.stdout, "isatty", bool)() or "ipykernel" in sys.modules


def duration(seconds: float) -> str:
    """Formats a time with two significant digits.

    >>> duration(12.3), duration(400), duration(9000)
    ('12 s', '7 min', '2.5 h')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 99.5 else f"{minutes / 60:.1f} h"


def columns_of(text: str) -> int:
    """Returns the width of a text in a monospaced font: Chinese, Japanese and Korean characters count two.

    >>> columns_of("Oslo"), columns_of("東京")
    (4, 4)
    """
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
