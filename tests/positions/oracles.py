"""The equations of the papers in loops of NumPy, one number at a time."""

import math

import numpy as np


def rotate(heads, positions, frequencies, interleaved=False, magnitude=1.0):
    """Heads `(B, h, n, d)` in float64; the first `2 * len(frequencies)` features are rotated."""
    out, half = np.array(heads, "float64"), len(frequencies)
    for row, position in enumerate(positions):
        for i, frequency in enumerate(frequencies):
            first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            a, b = (np.array(heads[:, :, row, place], "float64") for place in (first, second))
            cos, sin = (magnitude * f(frequency * float(position)) for f in (math.cos, math.sin))
            out[:, :, row, first] = a * cos - b * sin
            out[:, :, row, second] = b * cos + a * sin
    return out


def plain(width, base=10_000.0):
    return np.array([base ** (-2 * i / width) for i in range(width // 2)])


def ntk(width, factor, base=10_000.0):
    return plain(width, base * factor ** (width / (width - 2)))


def yarn(width, factor, length, fast=32.0, slow=1.0, truncate=True, base=10_000.0):
    """By parts: 1 where a pair turns often, 1 / factor where it turns seldom."""

    def pair(turns):
        return width * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base))

    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = (min(max(end, 0), width - 1) for end in (low, high))
    out = []
    for i, frequency in enumerate(plain(width, base)):
        ramp = min(max((i - low) / (high - low), 0.0), 1.0) if high > low else float(i > low)
        out.append(frequency * (1 - ramp) + frequency / factor * ramp)
    return np.array(out)


def llama3(width, factor, length, low=1.0, high=4.0, base=10_000.0):
    out = []
    for frequency in plain(width, base):
        wavelength = 2 * math.pi / frequency
        if wavelength > length / low:
            out.append(frequency / factor)
        elif wavelength < length / high:
            out.append(frequency)
        else:
            smooth = (length / wavelength - low) / (high - low)
            out.append((1 - smooth) * frequency / factor + smooth * frequency)
    return np.array(out)


def slopes(heads):
    """The recursion of the paper's own code."""
    if math.log2(heads).is_integer():
        start = 2 ** (-8 / heads)
        return [start ** (i + 1) for i in range(heads)]
    power = 2 ** math.floor(math.log2(heads))
    return slopes(power) + slopes(2 * power)[::2][: heads - power]


def alibi(heads, query_positions, key_positions):
    return np.array([[[-s * abs(i - j) for j in key_positions] for i in query_positions] for s in slopes(heads)])


def bucket(distance, buckets, farthest, both_ways):
    """In whole numbers only: `ln(r / x) / ln(f / x) * k >= t` is `r^k x^t >= f^t x^k`."""
    if both_ways:
        buckets //= 2
        first, steps = (buckets if distance > 0 else 0), abs(distance)
    else:
        first, steps = 0, max(-distance, 0)
    single = buckets // 2
    if steps < single:
        return first + steps
    ranges, t = buckets - single, 0
    while t < ranges - 1 and steps**ranges * single ** (t + 1) >= farthest ** (t + 1) * single**ranges:
        t += 1
    return first + single + t


def by_bucket(table, query_positions, key_positions, farthest, both_ways):
    """`(h, n, m)` of a table `(buckets, h)`."""
    rows = [
        [table[bucket(int(j) - int(i), len(table), farthest, both_ways)] for j in key_positions]
        for i in query_positions
    ]
    return np.transpose(np.array(rows), (2, 0, 1))


def shaw(table, query, query_positions, key_positions):
    """`(B, h, n, m)` of a table `(2 * farthest + 1, d)`."""
    farthest = len(table) // 2
    out = np.zeros((*query.shape[:3], len(key_positions)))
    for r, i in enumerate(query_positions):
        for c, j in enumerate(key_positions):
            vector = table[min(max(int(j) - int(i), -farthest), farthest) + farthest]
            out[:, :, r, c] = query[:, :, r] @ vector
    return out


def bello(rows, columns, query):
    """`(B, h, n, n)` of tables of vertical and horizontal distances; pixels row after row."""
    height, width = (len(rows) + 1) // 2, (len(columns) + 1) // 2
    out = np.zeros((*query.shape[:3], height * width))
    for i in range(height * width):
        for j in range(height * width):
            down, right = j // width - i // width, j % width - i % width
            out[:, :, i, j] = query[:, :, i] @ (rows[down + height - 1] + columns[right + width - 1])
    return out
