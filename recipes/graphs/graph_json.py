"""Graphs of JSON as tensors, by TensorFlow's own operations, so that a SavedModel reads them."""

import tensorflow as tf

# In the place of an escaped backslash, of an escaped quotation mark, and before a number: JSON has none of them.
BACKSLASH, QUOTE, NUMBER = "\x01", "\x02", "\x03"


def parse_graphs(texts):
    """Entities, types, triples and titles of JSON objects, as `graph_from_json` reads them.

    Args:
        texts: strings `(B,)`.

    Returns:
        Dictionary of `"entities"` and `"types"`, ragged strings `(B, None)`; `"ends"`, ragged int32 `(B, None, 2)`,
        heads and tails; `"relations"`, ragged strings `(B, None)`; and `"title"`, strings `(B,)`.

    Raises:
        tf.errors.InvalidArgumentError: that names what is wrong with the first faulty object.
    """
    ragged = tf.RaggedTensorSpec
    found = tf.map_fn(
        _parse,
        texts,
        fn_output_signature={
            "entities": ragged([None], tf.string, 0),
            "types": ragged([None], tf.string, 0),
            "ends": ragged([None, 2], tf.int32, 0),
            "relations": ragged([None], tf.string, 0),
            "title": tf.TensorSpec([], tf.string),
        },
    )
    ends = found["ends"]  # of no texts they have one axis less
    return found | {"ends": ends.with_flat_values(tf.reshape(ends.flat_values, (-1, 2)))}


def check(is_right, message, *values):
    """An assertion whose message is made of strings, some of which may be tensors."""
    return tf.debugging.Assert(is_right, [tf.strings.join([message, *values])])


def _parse(text):
    strings, keys, owners, depths, lists = _lex(text)

    def values(name, depth):
        return tf.boolean_mask(strings, tf.equal(owners, name) & tf.equal(depths, depth) & ~keys)

    triples, numbers = values("triples", 3), tf.boolean_mask(lists, tf.equal(owners, "triples") & tf.equal(depths, 3))
    sizes = tf.unique_with_counts(numbers).count
    with tf.control_dependencies(
        [
            check(tf.reduce_all(tf.equal(sizes, 3)), "A triple must have head, relation and tail: ", _short(text)),
            check(
                tf.reduce_all(~_is_number(values("entities", 2))), "Names of entities must be strings: ", _short(text)
            ),
        ]
    ):
        triples = tf.reshape(triples, (-1, 3))
    ends = tf.gather(triples, [0, 2], axis=1)
    entities = values("entities", 2)
    named = tf.boolean_mask(ends, ~_is_number(ends))
    entities = tf.cond(tf.size(entities) > 0, lambda: entities, lambda: tf.unique(named).y)
    entities = tf.strings.strip(entities)
    types = tf.strings.regex_replace(values("types", 2), "^<|>$", "")
    types = tf.cond(tf.size(types) > 0, lambda: types, lambda: tf.fill(tf.shape(entities), "entity"))
    return {
        "entities": _checked_entities(entities, types),
        "types": types,
        "ends": _places(tf.strings.strip(ends), entities),
        "relations": tf.strings.regex_replace(triples[:, 1], NUMBER, ""),
        "title": tf.strings.reduce_join(values("title", 1), separator=" "),
    }


def _checked_entities(entities, types):
    count = tf.size(entities)
    without = tf.equal(tf.strings.length(entities), 0)
    first = tf.strings.as_string(tf.reduce_sum(tf.where(without)[:1]))  # which may be none
    numbers = [tf.strings.as_string(tf.size(types)), " types for ", tf.strings.as_string(count), " entities"]
    checks = [
        check(count > 0, "A graph must have entities"),
        check(tf.equal(tf.size(types), count), "Each entity has one type. Received: ", *numbers),
        check(~tf.reduce_any(without), "An entity must have words. Received: an empty name, that of entity ", first),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(entities)


def _places(ends, entities):
    """The numbers of the entities that triples name, by numbers or by names."""
    is_number = _is_number(ends)
    digits = tf.where(is_number, tf.strings.regex_replace(ends, NUMBER, ""), "0")
    # Of equal names the first counts.
    by_name = tf.equal(ends[..., None], entities)
    known = tf.where(is_number, True, tf.reduce_any(by_name, axis=-1))
    strange = tf.strings.reduce_join(tf.boolean_mask(ends, ~known)[:1])
    with tf.control_dependencies([check(tf.reduce_all(known), "A triple names what is no entity: ", strange)]):
        found = tf.where(
            is_number, tf.strings.to_number(digits, tf.int32), tf.argmax(by_name, axis=-1, output_type=tf.int32)
        )
    is_there = (found >= 0) & (found < tf.size(entities))
    strange = tf.strings.reduce_join(tf.strings.as_string(tf.boolean_mask(found, ~is_there)[:1]))
    message = "A triple has the number of an entity that is not there, counted from 0: "
    with tf.control_dependencies([check(tf.reduce_all(is_there), message, strange)]):
        return tf.identity(found)


def _is_number(strings):
    return tf.strings.regex_full_match(strings, f"{NUMBER}.*")


def _short(text):
    return tf.strings.substr(text, 0, 60)


def _lex(text):
    """The strings and numbers of a JSON object.

    Returns:
        Tuple of tensors `(n,)`: strings, with `NUMBER` before numbers; whether each is a key of the object; the key
        that it stands under; how many brackets it stands within; and the number of the last bracket before it.
    """
    plain = tf.strings.regex_replace(text, r"\\\\", BACKSLASH)
    plain = tf.strings.regex_replace(tf.strings.regex_replace(plain, r"\\[nrtbf]", " "), r"\\/", "/")
    plain = _unescaped(tf.strings.regex_replace(plain, r'\\"', QUOTE))
    pieces = tf.strings.split(plain, '"')  # what is outside of strings, inside, outside, ...
    is_outside = tf.equal(tf.range(tf.size(pieces)) % 2, 0)
    quoted = tf.strings.regex_replace(pieces, r"(-?\d+)", f'"{NUMBER}\\1"')
    pieces = tf.strings.split(tf.strings.reduce_join(tf.where(is_outside, quoted, pieces), separator='"'), '"')
    outside, strings = pieces[::2], pieces[1::2]
    opened = _count(outside, r"[^\[{]")
    depths = tf.cumsum(opened - _count(outside, r"[^\]}]"))
    is_json = tf.reduce_all(tf.strings.regex_full_match(outside, r"[\s\[\]{},:]*"))
    is_json &= tf.strings.regex_full_match(outside[0], r"\s*\{\s*") & tf.equal(depths[-1], 0)
    is_json &= tf.equal(tf.size(pieces) % 2, 1)
    message = 'A graph is a JSON object of "entities", "types", "triples" and "title". Received: '
    with tf.control_dependencies([check(is_json, message, _short(text))]):
        keys = tf.equal(depths[:-1], 1) & tf.strings.regex_full_match(outside[1:], r"\s*:(?s:.*)")
    strings = tf.strings.regex_replace(strings, BACKSLASH, r"\\")
    strings = tf.strings.regex_replace(strings, QUOTE, '"')
    names = tf.concat([[""], tf.boolean_mask(strings, keys)], axis=0)
    owners = tf.gather(names, tf.cumsum(tf.cast(keys, tf.int32)))
    return strings, keys, owners, depths[:-1], tf.cumsum(opened)[:-1]


def _count(strings, others):
    return tf.strings.length(tf.strings.regex_replace(strings, others, ""))


def _unescaped(text):
    r"""A text with characters in the place of `\u00e9` and, of two halves, `\ud83d\ude00`."""
    codes = tf.strings.unicode_decode(text, "UTF-8")
    size = tf.size(codes)
    padded = tf.pad(codes, [[0, 12]])
    low = padded | 32
    digits = tf.where((padded >= 48) & (padded <= 57), padded - 48, -1)
    digits = tf.where((low >= 97) & (low <= 102) & (digits < 0), low - 87, digits)

    def after(values, places):
        return values[places : places + size]

    four = tf.stack([after(digits, place) for place in (2, 3, 4, 5)])
    starts = tf.equal(codes, 92) & tf.equal(after(padded, 1), 117) & tf.reduce_all(four >= 0, axis=0)
    found = tf.where(starts, tf.reduce_sum(four * [[4096], [256], [16], [1]], axis=0), -1)
    second = after(tf.pad(found, [[0, 12]], constant_values=-1), 6)
    is_pair = (found >= 0xD800) & (found < 0xDC00) & (second >= 0xDC00) & (second < 0xE000)
    joined = 0x10000 + (found - 0xD800) * 1024 + second - 0xDC00
    found = tf.where(tf.equal(found, ord('"')), ord(QUOTE), tf.where(tf.equal(found, 92), ord(BACKSLASH), found))
    characters = tf.where(is_pair, joined, tf.where(starts, found, codes))

    def before(values, places):
        return tf.pad(values, [[places, 0]])[:size]

    lost = before(is_pair, 6)
    for place in range(1, 6):
        lost |= before(starts, place)
    return tf.strings.unicode_encode(tf.boolean_mask(characters, ~lost), "UTF-8")
