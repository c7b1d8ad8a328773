"""Interactive page of attention maps, as served and as one file."""

import base64
import hashlib
import json
import pathlib

FOLDER = pathlib.Path(__file__).parent / "_page"
LINK, SCRIPT = '<link rel="stylesheet" href="page.css">', '<script src="page.js"></script>'
# No request leaves the machine, whatever a user types for the address of a model.
LOCAL = "http://127.0.0.1:* http://localhost:*"
TYPES = "; require-trusted-types-for 'script'; trusted-types 'none'"


def page_files(origins=()):
    """Returns the page's files as path to (type, bytes, headers); the page may also query the servers `origins`."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        f"connect-src 'self' {' '.join([LOCAL, *origins])}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'" + TYPES
    )
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
    files = {
        f"/page.{kind}": (f"{kinds[kind]}; charset=utf-8", (FOLDER / f"page.{kind}").read_bytes(), headers)
        for kind in kinds
    }
    return files | {"/": files["/page.html"]}


def single_file(data):
    """Returns the page as one file that contacts no server; `data` is what `page.js` reads."""
    page, style, script = ((FOLDER / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'" + TYPES
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
