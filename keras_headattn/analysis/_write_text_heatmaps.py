"""Heat maps of heads over texts, as a page of HTML."""

import html

from keras_headattn._files import write_atomically
from keras_headattn.analysis._text_heatmaps import heatmap_rows, shades

PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>What the heads attend to</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ background: Canvas; color: CanvasText; font: 15px/1.7 system-ui, sans-serif; margin: 2em; }}
section {{ border-top: 1px solid GrayText; padding: 1em 0; }}
.row {{ display: flex; gap: 2em; }}
.row > * {{ flex: 1; min-width: 0; margin: 0 0 .6em; overflow-wrap: break-word; }}
small {{ display: block; opacity: .7; }}
span {{ background: rgb(230 65 40 / calc(var(--shade) * 65%)); border-radius: 3px; padding: .1em .15em; }}
</style>
</head>
<body>
{}
</body>
</html>
"""


def write_text_heatmaps(path, texts, heads=None):
    """Writes a page on which every text stands once for each head and once for the sum of all.

    Words are the redder the more they are attended to, and a pointer on them shows the weight. Every row has its own
    scale, whose end, the largest weight, is in its label. The page needs no other file, and is dark where the reader's
    system is.

    As figures 1 and 6 to 10 of An et al. 2020, "Repulsive attention".

    Args:
        path: str or path of the file.
        texts: list of `(tokens, maps)`, each as of `draw_text_heatmaps`.
        heads: list of heads to show. Defaults to all, `[]` are none: the sums alone.

    Raises:
        ValueError: naming the argument and what was received.

    >>> write_text_heatmaps("heads.html", [(["not", "bad"], {"standard": [[0.5, 0.5], [0.1, 0.9]]})])
    """
    if not len(texts):
        raise ValueError(f"`texts` must be a list of at least one pair of tokens and maps. Received: texts={texts}")
    sections = [_section(tokens, maps, heads) for tokens, maps in texts]
    write_atomically(path, PAGE.format("\n".join(sections)).encode("utf-8"))


def _section(tokens, maps, heads):
    titles = "".join(f"<h2>{html.escape(str(title))}</h2>" for title in maps)
    rows = [f'<div class="row">{titles}</div>']
    for label, by_title in heatmap_rows(tokens, maps, heads):
        cells = [_paragraph(label, tokens, weights) for weights in by_title.values()]
        rows.append('<div class="row">{}</div>'.format("".join(cells)))
    return "<section>\n{}\n</section>".format("\n".join(rows))


def _paragraph(label, tokens, weights):
    words = " ".join(
        f'<span style="--shade: {shade:.3f}" title="{weight:.3g}">{html.escape(token)}</span>'
        for token, shade, weight in zip(tokens, shades(weights), weights, strict=True)
    )
    return f'<p dir="auto"><small>{label}, at most {weights.max():.2g}</small>{words}</p>'
