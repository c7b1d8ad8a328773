"""Lines of text that tokenizers may split in different ways."""

import random
import unicodedata

# Where blocks of Unicode begin: scripts, signs, emoji, private use.
BLOCKS = """
    20 60 a0 c0 100 180 250 2b0 300 370 400 530 590 600 700 900 980 a00 b80 d00 e00 e80 f00 1000 10a0 1100 1200 13a0
    1400 16a0 1780 1800 1e00 1f00 2000 2070 20a0 2100 2190 2200 2300 2460 2500 2580 2600 2700 2e80 3000 3040 30a0 3130
    3200 3300 4e00 7530 ac00 e000 f900 fb00 fe00 fe30 ff00 10300 1d400 1f300 1f600 1f900 20000 e0100
""".split()
WORDS = "the cat sat on mat dogs ran after other still while were there a an and Hund schläft Élan vital ты где".split()
SIGNS = [
    *".,!?'\"()[]{}#@$%&*-_/\\|~^`<>+=",
    "'s",
    "'re",
    "don't",
    "1,000.5",
    "  ",
    "\t",
    " \n",
    "😀",
    "👩\u200d👧",
    "🇩🇪",
]
SIGNS += ["é", "e\u0301", "ﬁ\u0301", "Å\u0301", "क्षि", "ก็", "\r\n", "ß", "İ", "Σς"]
UNITS = ["ab", "1", "aab", "the", "ก", "я", "中", "e\u0301", "=", "- ", "😀", "##", "ᄀ"]
SPACES = [*" \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000\u200b\u200d\ufeff\u00ad\ufffd"]
CONTROLS = [*map(chr, range(1, 32)), *map(chr, range(0x7F, 0xA0))]


def odd_lines(seed=0, without=""):
    """About 2,000 lines of all scripts, control characters, white space, and long and periodic words.

    Args:
        seed: int.
        without: characters that are left out.
    """
    rng = random.Random(seed)
    pools = [[chr(int(block, 16) + i) for i in range(0x60)] for block in BLOCKS] + [SPACES, CONTROLS]
    pools = [[c for c in pool if _is_old(c) and c not in without] for pool in pools]
    lines = ["".join(rng.choices(pool, k=rng.randint(1, 30))) for pool in pools for _ in range(16)]
    for _ in range(600):
        kinds = WORDS, [word.upper() for word in WORDS], SIGNS, rng.choice(pools), rng.choice(pools)
        lines.append(rng.choice([" ", ""]).join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, 14))))
    lines += [unit * count for unit in UNITS for count in (2, 3, 7, 33, 34, 51, 99, 100, 101, 102, 250)]
    lines += [f"a{c}b x{c} {c}" for c in map(chr, (*range(1, 0x60), *range(0x2000, 0x2070))) if c not in without]
    return [*lines, "", " ", "  ", "\n", "a\0b", "\0", "##s", "# #", "x" * 500]


def _is_old(character):
    """True for characters of Unicode 3.2 and pictures: libraries have tables of different years for others."""
    return unicodedata.ucd_3_2_0.category(character) != "Cn" or character > "\U0001f000"
