"""Figures whose texts may be of any script that an installed font has."""

import functools
import re
import unicodedata
import warnings

from matplotlib import figure, font_manager, text

# Fonts whose characters are boxes, or signs of formulas in the places of others.
NOT_OF_TEXT = re.compile(r"\.?Last ?Resort|cm[a-z]+10$|STIXSize|STIXNonUnicode")
EAST_ASIAN = {"CJK", "Hiragana", "Katakana", "Hangul", "Bopomofo"}
NO_FONT = set()  # characters that no font has
REPORTED = set()  # scripts that the warning has named


class Figure(figure.Figure):
    """A figure that looks for fonts when it is drawn.

    A text with characters that its font does not have gets a further font that has them. If there is none, a warning
    says which script is missing, once a process, and the characters are drawn as boxes.
    """

    def draw(self, renderer):
        add_fonts(self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            super().draw(renderer)


def add_fonts(figure):
    """Gives each text of a figure the fonts for its characters.

    Args:
        figure: `matplotlib.figure.Figure`.
    """
    for axes in figure.axes:  # ticks get their texts now, rather than when they are drawn
        axes.get_xticklabels()
        axes.get_yticklabels()
    missing = set()
    for item in figure.findobj(text.Text):
        own = font_manager.findfont(item.get_fontproperties())
        lacking = {character for character in item.get_text() if not _is_blank(character) and not _has(own, character)}
        if lacking:
            families, without = families_with(frozenset(lacking - NO_FONT))
            item.set_fontfamily([*dict.fromkeys([*item.get_fontfamily(), *families])])
            missing |= without
    NO_FONT.update(missing)
    _report(missing)


@functools.lru_cache(1024)
def families_with(characters):
    """The fonts that show characters.

    Args:
        characters: frozenset of str.

    Returns:
        `(families, without)`: the names of as few fonts as will do, and the set of characters that no font has.
    """
    families, left = [], set(characters)
    for entry in _fonts():
        if not left:
            break
        found = {character for character in left if _has(entry.fname, character)}
        if found:
            families.append(entry.name)
            left -= found
    return families, left


def _fonts():
    """Entries of matplotlib's list of fonts, then those of fonts that were installed after it was made."""
    manager = font_manager.fontManager
    known = [*manager.ttflist]
    yield from (entry for entry in known if not NOT_OF_TEXT.match(entry.name))
    files = {entry.fname for entry in known}
    for path in font_manager.findSystemFonts():
        if path not in files:
            try:
                manager.addfont(path)
            except (OSError, RuntimeError, NotImplementedError):  # no font, or one of pictures
                continue
    yield from (entry for entry in manager.ttflist[len(known) :] if not NOT_OF_TEXT.match(entry.name))


def _is_blank(character):
    return character.isspace() or not character.isprintable()


def _has(path, character):
    try:
        return font_manager.get_font(path).get_char_index(ord(character)) != 0
    except (OSError, RuntimeError):  # the file is gone
        return False


def _report(missing):
    scripts = {_script(character): character for character in sorted(missing, reverse=True)}
    scripts = {script: character for script, character in sorted(scripts.items()) if script not in REPORTED}
    if not scripts:
        return
    REPORTED.update(scripts)
    packages = {"fonts-noto-cjk" if script in EAST_ASIAN else "fonts-noto-core" for script in scripts}
    named = ", ".join(f"{script} ({character})" for script, character in scripts.items())
    warnings.warn(
        f"No installed font has these characters, which pictures show as boxes: {named}. "
        f"Install one, such as that of the package {' or '.join(sorted(packages))}.",
        stacklevel=2,
    )


def _script(character):
    """Such as "Hiragana"; of what is no letter, "symbols"."""
    first = re.split("[ -]", unicodedata.name(character, ""))[0]
    if unicodedata.category(character)[0] not in "LM" or not first:
        return "symbols"
    return first if first == "CJK" else first.capitalize()
