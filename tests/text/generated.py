"""Strings of all planes of Unicode, with marks, runs of white space, line ends and digits."""

import random
import unicodedata


def _is_old(code):
    """True for characters of Unicode 3.2, pictures, and planes above 1, without ideographs since Unicode 15.1."""
    old = unicodedata.ucd_3_2_0
    if code < 0x1F000:  # marks that were moved to other places since are another matter
        is_same = unicodedata.combining(chr(code)) == old.combining(chr(code))
        return is_same and old.category(chr(code)) not in ("Cn", "Cs")
    return not 0x2EBF0 <= code < 0x2F000 and not 0x323B0 <= code < 0x34000


PLANES = [[chr(c) for c in range(plane << 16, plane + 1 << 16) if _is_old(c)] for plane in range(17)]
MARKS = [c for c in PLANES[0] if unicodedata.combining(c)]
SPACES = [*" \t\n\r\x0b\x0c\x85\xa0\u2003\u2028\u3000", "\r\n", "\n\n", " \n"]
DIGITS = "0123456789\u0663\xbd\xb2\u2167\U0001d7d8"
ENDINGS = ["s", "S", "t", "RE", "re", "vE", "m", "LL", "ll", "d", "D", "\u017f", "x", ""]
WHOLE = [
    "the",
    "cat",
    "Hello",
    "don't",
    "x",
    "日本",
    "가",
    "ß",
    "İ",
    "\ufeff",
    "👩\u200d👧",
    "🇩🇪",
    "<|end|>",
    "<think>",
    "<b>",
]


def generated_texts(count, seed=0):
    rng = random.Random(seed)
    kinds = [
        lambda: rng.choice(SPACES) * rng.randint(1, 4),
        lambda: "".join(rng.choices(SPACES, k=rng.randint(1, 5))),
        lambda: "".join(rng.choices(DIGITS, k=rng.randint(1, 7))),
        lambda: "'" + rng.choice(ENDINGS),
        lambda: "".join(rng.choices(PLANES[rng.randrange(17)], k=rng.randint(1, 4))),
        lambda: "".join(rng.choices(PLANES[0][:3000], k=rng.randint(1, 5))),
        lambda: rng.choice("aeoАक가\u1100=") + "".join(rng.choices(MARKS, k=rng.randint(1, 3))),
        lambda: "".join(rng.choices(".,!?-_/#()[]{}<>|'\"\0\x1c", k=rng.randint(1, 4))),
        lambda: rng.choice(WHOLE) + rng.choice(["", " "]),
        lambda: rng.choice(WHOLE) + rng.choice(["", " "]),
    ]
    return ["".join(rng.choice(kinds)() for _ in range(rng.randint(0, 14))) for _ in range(count)]
