"""Places of the boxes of a graph, in inches, such that none covers another."""

import textwrap

import numpy as np

from keras_headattn._terminal import columns_of

COLUMNS, MOST = 20, 30  # of a line in a box; of a line with a single long word
CHARACTER, LINE, PAD = 0.078, 0.15, 0.09  # inches
GAP = 0.28  # between boxes, room for arrows
STEP = 0.8  # inches from a box to the next along a relation


def boxed(text):
    """Wraps a text; returns it with the size of its box: `(text, (width, height))`, inches."""
    longest = max(map(len, text.split()), default=0)
    lines = textwrap.wrap(text, max(COLUMNS, min(longest, MOST))) or [""]
    width = max(map(columns_of, lines))
    return "\n".join(lines), (CHARACTER * width + 2 * PAD, LINE * len(lines) + 2 * PAD)


def place_boxes(sizes, edges):
    """Places boxes of sizes `(n, 2)` near to those that edges, pairs of boxes, join them to: middles `(n, 2)`.

    By the layout of Kamada and Kawai 1989, "An algorithm for drawing general undirected graphs"; boxes that cover each
    other are then pushed apart. The lowest and leftmost box ends at 0.
    """
    sizes = np.asarray(sizes, "float64")
    places = _separate(_layout(len(sizes), edges) * STEP * (1.35, 0.75), sizes + GAP)
    return places - (places - sizes / 2).min(0)


def _layout(n, edges):
    """Places `(n, 2)` by which edges are about 1 long."""
    import networkx

    graph = networkx.Graph([(one, other, {"weight": 1}) for one, other in edges if one != other])
    graph.add_nodes_from(range(n))
    first, *others = map(min, networkx.connected_components(graph))
    graph.add_edges_from(((first, other) for other in others), weight=2)
    layout = networkx.kamada_kawai_layout(graph)
    lengths = [np.linalg.norm(layout[one] - layout[other]) / far for one, other, far in graph.edges(data="weight")]
    return np.array([layout[box] for box in range(n)]) / np.mean(lengths or [1])


def _separate(places, sizes, steps=400):
    """Pushes boxes that cover each other apart, along the axis on which they do so less."""
    n = len(places)
    needed = (sizes[:, None] + sizes) / 2
    for step in range(steps):
        apart = places[:, None] - places
        covered = needed - np.abs(apart)
        covered[np.arange(n), np.arange(n)] = -1
        covers = (covered > 1e-6).all(-1)
        if not covers.any():
            break
        if step % 50 == 49:
            places = places * 1.1
            continue
        axis = covered.argmin(-1)
        order = np.sign(np.arange(n)[:, None] - np.arange(n))
        moves = np.zeros_like(apart)
        for which in (0, 1):
            sign = np.where(apart[..., which] == 0, order, np.sign(apart[..., which]))
            moves[..., which] = np.where(covers & (axis == which), sign * (covered[..., which] / 2 + 1e-3), 0)
        places = places + 0.6 * moves.sum(1)
    return places


def free_columns(places, sizes, numbers):
    """Finds for each box in `numbers` a place along its width from which the way up meets the fewest boxes."""
    taken = []
    for box in numbers:
        reach = sizes[box, 0] / 2 - PAD
        above = places[:, 1] > places[box, 1]
        costs = {}
        for x in places[box, 0] + np.linspace(0, reach, 8)[:, None] * (1, -1):
            for side in x:
                blocked = (above & (np.abs(places[:, 0] - side) < sizes[:, 0] / 2 + 0.08)).sum()
                near = any(abs(side - other) < 0.16 for other in taken)
                costs[float(side)] = blocked + 2 * near + 0.1 * abs(side - places[box, 0])
        taken.append(min(costs, key=costs.get))
    return taken
