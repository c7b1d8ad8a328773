"""Interactive page of attention maps as one file; `recipes.serve` serves the same page."""

import base64
import hashlib
import json
import pathlib

FOLDER = pathlib.Path(__file__).parent / "_page"
LINK, SCRIPT = '<link rel="stylesheet" href="page.css">', '<script src="page.js"></script>'


def single_file(data):
    """Returns the page as one file that contacts no server; `data` is what `page.js` reads."""
    page, style, script = ((FOLDER / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    # Nothing in it can end the element, or begin another.
    embedded = json.dumps(data, allow_nan=False)
    for character in "<>&":
        embedded = embedded.replace(character, f"\\u{ord(character):04x}")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}', 1)
    page = page.replace(LINK, f"<style>{style}</style>", 1)
    block = f'<script type="application/json" id="data">{embedded}</script>\n<script>{script}</script>'
    return page.replace(SCRIPT, block, 1)


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
