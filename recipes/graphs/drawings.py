"""Pictures of a graph with the attention of its vertices, and of where each word of its text was copied from."""

import itertools
import textwrap

import numpy as np

from keras_headattn._terminal import columns_of
from keras_headattn.utils import new_figure, weight_colors
from recipes.graphs.layout import boxed, free_columns, place_boxes

CAPTION = (
    "An arrow leads from a vertex to one that it attends to, and a box's colour is its weight to itself: together they "
    "make 1. A relation and its inverse share a box; arrows keep to the right."
)
BESIDE = 0.05  # inches from the middle of two arrows to each
BAR = 0.26  # inches, height of the global vertex


def draw_graph_attention(maps, block=-1, heads=None, title=None):
    """Draws a graph, and on it what the vertices attend to in one block of the encoder: a picture for each head.

    Entities are boxes. A relation is a box without colour, and its inverse the same box: arrows lead through it from
    head to tail, and from tail to head. The global vertex is a bar at the top. The wider and darker an arrow, the
    larger its weight. All heads have one scale. Heads and blocks are counted from 1 in the picture.

    Args:
        maps: `GraphMaps`, as `graph_maps` returns it.
        block: index of the block, from 0, or from the last, -1.
        heads: list of heads to draw, indices from 0. Defaults to all.
        title: str, of the picture. Default `None`: the number of the block.

    >>> from recipes.graphs.maps import GraphMaps
    >>> from recipes.graphs.corpus import Graph
    >>> graph = Graph(("Anna", "Oslo"), ("person", "town"), ((0, "home", 1),))
    >>> weights = {"block_0/attention": np.full((2, 5, 5), 1 / 3)}
    >>> figure = draw_graph_attention(GraphMaps(graph, (0, "lives", "in", 1), weights, np.eye(4, 2), []))
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['head 1', 'head 2']
    """
    names = [name for name in maps.weights if name.startswith("block_")]
    if not -len(names) <= block < len(names):
        raise ValueError(f"`block` must be one of {len(names)} blocks. Received: block={block}")
    weights = maps.weights[names[block]]
    heads = list(range(len(weights)) if heads is None else heads)
    if not heads or not all(0 <= head < len(weights) for head in heads):
        raise ValueError(f"`heads` must be from 0 to {len(weights) - 1}, at least one. Received: heads={heads}")
    scene = _Scene(maps.graph)
    columns = min(len(heads), max(1, int(17 / scene.width)), 2 if len(heads) == 4 else len(heads))
    rows = -(-len(heads) // columns)
    title = f"What vertices attend to in block {block % len(names) + 1} of {len(names)}" if title is None else title
    width, height = columns * (scene.width + 0.3) + 1.1, rows * (scene.height + 0.4)
    caption = textwrap.fill(CAPTION, int(width / 0.062))
    figure = new_figure(width, height + 0.2 + 0.13 * len(caption.split("\n")), title)
    figure.supxlabel(caption, fontsize=7, color="gray")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    colors = _Colors(np.stack([weights[head][scene.attends] for head in heads]))
    for axes, head in zip(grid.flat, heads, strict=False):
        scene.draw(axes, weights[head], colors)
        axes.set_title(f"head {head + 1}", fontsize=9)
    bar = figure.colorbar(colors.scale(), ax=grid, label="weight", shrink=min(1, 2.2 / height), aspect=15)
    bar.ax.tick_params(labelsize=7)
    return figure


class _Colors:
    """Colours of weights, from one scale."""

    def __init__(self, weights):
        from matplotlib import cm, colors

        arguments = weight_colors(weights)
        self.largest = arguments["vmax"]
        self._scale = cm.ScalarMappable(colors.Normalize(arguments["vmin"], arguments["vmax"]), arguments["cmap"])

    def scale(self):
        return self._scale

    def of(self, weight):
        return self._scale.to_rgba(weight)


class _Scene:
    """Boxes of a graph and the ways between them, the same for all heads."""

    def __init__(self, graph):
        self.entities, self.triples = len(graph.entities), graph.triples
        drawn = [boxed(text) for text in (*graph.entities, *(relation for _, relation, _ in graph.triples))]
        self.texts, self.sizes = [text for text, _ in drawn], np.array([size for _, size in drawn])
        boxes = range(self.entities, len(drawn))
        ends = [(head, tail) for head, _, tail in graph.triples]
        edges = [pair for box, (head, tail) in zip(boxes, ends, strict=True) for pair in ((head, box), (box, tail))]
        self.places = place_boxes(self.sizes, edges)
        self.width, self.height = (self.places + self.sizes / 2).max(0)
        self.width, self.bar = max(self.width, 1.2), self.height + 0.45
        self.height = self.bar + BAR
        columns = free_columns(self.places, self.sizes, range(self.entities))
        self.ways = [*self._to_global(columns), *self._through_relations(ends)]
        vertices = self.entities + 1 + 2 * len(ends)
        self.attends = np.eye(vertices, dtype=bool)
        for row, column, *_ in self.ways:
            self.attends[row, column] = True

    def _to_global(self, columns):
        """Yields ways between entities and the bar: `(vertex that attends, vertex attended to, begin, end)`."""
        for entity, x in enumerate(columns):
            top = self.places[entity, 1] + self.sizes[entity, 1] / 2
            yield entity, self.entities, (x + BESIDE, top), (x + BESIDE, self.bar)
            yield self.entities, entity, (x - BESIDE, self.bar), (x - BESIDE, top)

    def _through_relations(self, ends):
        for index, (head, tail) in enumerate(ends):
            box = self.entities + index
            there, back = self.entities + 1 + index, self.entities + 1 + len(ends) + index
            # For a relation of an entity to itself, all four ways join the same two boxes.
            beside = (BESIDE, 3 * BESIDE) if head == tail else (BESIDE, BESIDE)
            yield head, there, *self._between(head, box, beside[0])
            yield there, tail, *self._between(box, tail, beside[0])
            yield tail, back, *self._between(tail, box, beside[1])
            yield back, head, *self._between(box, head, beside[1])

    def _between(self, one, other, beside):
        """Returns the ends of a way from the edge of a box to that of another, to the right of their middles."""
        begin, end = self.places[one], self.places[other]
        along = (end - begin) / np.linalg.norm(end - begin)
        right = np.array([along[1], -along[0]]) * beside
        points = []
        for box, direction in ((one, along), (other, -along)):
            direction = np.where(np.abs(direction) < 1e-9, 1e-9, direction)
            reach = (np.sign(direction) * self.sizes[box] / 2 - right) / direction
            points.append(self.places[box] + right + direction * max(reach.min(), 0))
        return points

    def draw(self, axes, weights, colors):
        from matplotlib.patches import FancyArrowPatch

        axes.set(xlim=(-0.1, self.width + 0.1), ylim=(-0.1, self.height + 0.1), aspect="equal")
        self._draw_boxes(axes, weights, colors)
        for row, column, begin, end in sorted(self.ways, key=lambda way: abs(weights[way[0], way[1]])):
            axes.plot(*np.transpose([begin, end]), color="0.88", linewidth=0.6, zorder=1)
            part = abs(weights[row, column]) / colors.largest
            if part > 0.02:
                style = dict(arrowstyle="-|>", mutation_scale=4 + 6 * part, linewidth=0.3 + 2.2 * part)
                color = colors.of(weights[row, column])
                axes.add_patch(FancyArrowPatch(begin, end, shrinkA=0, shrinkB=0, color=color, zorder=2, **style))

    def _draw_boxes(self, axes, weights, colors):
        for index, (text, middle, size) in enumerate(zip(self.texts, self.places, self.sizes, strict=True)):
            weight = weights[index, index] if index < self.entities else None
            _draw_box(axes, text, middle, size, colors, weight)
        middle, size = np.array([self.width / 2, self.bar + BAR / 2]), np.array([self.width, BAR])
        _draw_box(axes, "global", middle, size, colors, weights[self.entities, self.entities])


def _draw_box(axes, text, middle, size, colors, weight):
    """Draws a box in the colour of its weight to itself, or without colour."""
    from matplotlib import patheffects
    from matplotlib.patches import FancyBboxPatch

    is_relation = weight is None
    style = f"round,pad=0,rounding_size={0.12 if is_relation else 0.05}"
    face, edge = ("white", "0.75") if is_relation else (colors.of(weight), "0.35")
    corner = middle - size / 2
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle=style, facecolor=face, edgecolor=edge, linewidth=0.8, zorder=3)
    )
    halo = [patheffects.withStroke(linewidth=2, foreground="white")]  # keeps black letters readable on any colour
    look = dict(color="0.35", style="italic") if is_relation else dict(color="black", path_effects=halo)
    axes.text(
        *middle, text, fontsize=7.5, ha="center", va="center", zorder=4, parse_math=False, linespacing=1.1, **look
    )


COPY_CAPTION = (
    "A box is a copy, in the colour of its entity. Below it stand the entity's number and the probability of the copy; "
    "so they do below a word whose place a copy might have taken. The stronger a colour, the larger the probability."
)
COLUMNS, LEAST = 92, 0.05  # characters a line; the least probability of a copy that is shown
CELL, ROW = 0.068, 0.19  # inches of a character and of a line


def draw_copies(maps, title="Where the words were copied from"):
    """Draws the entities of a graph, each in a colour of its own, and its text, whose words have that of their source.

    >>> from recipes.graphs.maps import GraphMaps
    >>> from recipes.graphs.corpus import Graph
    >>> graph = Graph(("Anna", "Oslo"), ("person", "town"), ((0, "home", 1),))
    >>> copies = np.array([[0.9, 0.1], [0, 0], [0, 0], [0, 0.95]])
    >>> figure = draw_copies(GraphMaps(graph, (0, "lives", "in", 1), {}, copies, []))
    >>> [text.get_text() for text in figure.axes[0].texts][-2:]
    ['Oslo', '2: 0.95']
    """
    shorten = lambda text: textwrap.shorten(text, COLUMNS - 4, placeholder=" ...")  # noqa: E731
    chips = [shorten(f"{index} {name}") for index, name in enumerate(maps.graph.entities, 1)]
    words = list(map(shorten, maps.written))
    sources = [_source(token, row) for token, row in zip(maps.tokens, maps.copies, strict=True)]
    above, below = (
        _flow(map(columns_of, chips)),
        _flow(max(columns_of(word), 7 * (of is not None)) for word, of in zip(words, sources, strict=True)),
    )
    top = 1.5 * (above[-1][0] + 1) + 1
    lines = top + 2.2 * (below[-1][0] + 1)
    caption = textwrap.fill(COPY_CAPTION, COLUMNS + 8)
    figure = new_figure(CELL * (COLUMNS + 2), ROW * lines + 0.13 * (caption.count("\n") + 1) + 0.3, title)
    figure.supxlabel(caption, fontsize=7, color="gray")
    axes = figure.subplots()
    axes.set(xlim=(-1, COLUMNS + 1), ylim=(lines, -0.5))
    axes.set_axis_off()
    axes.axhline(top - 0.9, color="0.85", linewidth=0.8)
    colors = _entity_colors(len(chips))
    for chip, color, (line, column) in zip(chips, colors, above, strict=True):
        _write(axes, chip, column, 1.5 * line + 0.5, (*color, 0.75), color)
    for token, word, source, (line, column) in zip(maps.tokens, words, sources, below, strict=True):
        y = top + 2.2 * line + 0.5
        if source is None:
            _write(axes, word, column, y, "none", "none")
            continue
        entity, probability = source
        is_copy = isinstance(token, int)
        _write(axes, word, column, y, (*colors[entity], 0.75 * probability), colors[entity] if is_copy else "none")
        axes.text(column, y + 0.95, f"{entity + 1}: {probability:.2f}", fontsize=6, color="0.35", va="center")
    return figure


def _source(token, copies):
    """The entity that was copied, or could have been, and the probability of this copy; `None` for a mere word."""
    entity = token if isinstance(token, int) else int(copies.argmax())
    probability = float(copies[entity])
    return (entity, probability) if isinstance(token, int) or probability >= LEAST else None


def _flow(widths):
    """Places texts of these widths one after the other: line and column of each."""
    places, line, column = [], 0, 0
    for width in widths:
        if column and column + width > COLUMNS:
            line, column = line + 1, 0
        places.append((line, column))
        column += width + 2
    return places


def _write(axes, text, x, y, face, edge):
    box = dict(boxstyle="round,pad=0.18", facecolor=face, edgecolor=edge, linewidth=0.9)
    axes.text(x, y, text, fontsize=7.5, family="monospace", va="center", bbox=box, parse_math=False)


def _entity_colors(count):
    """Returns as many distinct colours as there are, then the same again: list of (red, green, blue)."""
    from matplotlib import colormaps

    palette = colormaps["tab10" if count <= 10 else "tab20"].colors
    return list(itertools.islice(itertools.cycle(palette), count))
