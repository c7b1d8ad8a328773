"""The signature `attention` of SavedModels: predictions with attention maps."""

import inspect

import keras
import tensorflow as tf

from keras_headattn.layers import capture_intermediates
from keras_headattn.serving._likeliest import not_empty


def translation_attention(search, searcher, kept, source_tokenizer, target_tokenizer):
    """Returns a function from source ids to the best translations and their cross-attention maps.

    The model reads each finished translation once more, all tokens at once.
    """
    source_name, target_name = _names(source_tokenizer), _names(target_tokenizer)
    model = searcher.model

    def attention(source):
        rows = tf.shape(source)[0]
        found = search(source)
        tokens = found["tokens"][:, 0]
        is_written = tf.cumsum(tf.cast(tokens == searcher.end_id, tf.int32), axis=1, exclusive=True) == 0
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(is_written, tf.int32), axis=1))
        longest = tf.maximum(longest, 0)  # an empty batch has none
        tokens, is_written = tokens[:, :longest], is_written[:, :longest]
        start = tf.fill([rows, 1], searcher.start_id)
        shifted = tf.where(is_written, tf.concat([start, tokens], axis=1)[:, :-1], 0)
        source_or_one, target = not_empty(source), not_empty(shifted)
        kernels, weights = kept.read()
        with keras.StatelessScope(weights), capture_intermediates() as intermediates:
            given = {} if kernels is None else {"kernels": kernels}
            cache = model.init_cache(source_or_one, tf.shape(target)[1], **given)
            model.decode_step(target, cache, 0, tf.range(tf.shape(target)[1]), None, **given)
        maps = {path: layer for path, layer in intermediates.items() if path.endswith("cross_attention")}
        maps = _stacked(maps, "`attention=True` needs a model with cross-attention of this library")
        is_pair = is_written[:, None, None, :, None] & (source > 0)[:, None, None, None, :]
        return {
            "translations": target_tokenizer.detokenize(tokens),
            "scores": found["scores"][:, 0],
            "source_pieces": source_name(source),
            "target_pieces": target_name(tokens),
            "weights": tf.where(is_pair, maps[:rows, :, :, :longest, : tf.shape(source)[1]], 0.0),
        }

    return attention


def text_attention(predict, model, tokenizer):
    """Returns a function from token ids to predictions and the attention maps of all heads."""
    name, pad_id = _names(tokenizer), getattr(tokenizer, "pad_id", 0)

    def attention(inputs):
        outputs = dict(predict(inputs))
        for (ids, own), prefix in zip(intermediates_of(model, inputs), ("", "second_"), strict=False):
            outputs |= {prefix + key: value for key, value in _maps_of(own, ids != pad_id).items()}
            outputs[f"{prefix}pieces"] = name(ids)
        return outputs

    return attention


def intermediates_of(model, inputs):
    """Runs a model once, and returns what its layers computed on the way, text by text."""
    texts = inputs if isinstance(inputs, tuple) else (inputs,)
    padded = tf.nest.map_structure(not_empty, inputs)
    if "return_intermediates" in inspect.signature(model.call).parameters:
        _, found = model(padded, training=False, return_intermediates=True)
    elif len(texts) == 1:
        with capture_intermediates() as found:
            model(padded, training=False)
    else:
        found = {}
    sides = [
        {path: layer for path, layer in found.items() if len(texts) == 1 or path.startswith(side)}
        for side in ("first/", "second/")[: len(texts)]
    ]
    ids = [text["token_ids"] if isinstance(text, dict) else text for text in texts]
    return list(zip(ids, sides, strict=True))


def _maps_of(found, real):
    """`weights` `(B, layers, heads, n, n)` and `pooling` `(B, heads, n)` of one text, as far as there are such."""
    rows, length = tf.shape(real)[0], tf.shape(real)[1]
    found = {path: layer for path, layer in found.items() if "weights" in layer}
    poolings = [layer["weights"] for layer in found.values() if layer["weights"].shape.rank == 3]
    maps = {path: layer for path, layer in found.items() if layer["weights"].shape.rank > 3}
    outputs = {}
    if maps or not poolings:
        weights = _stacked(maps, "`attention=True` needs a model with attention or pooling of this library")
        is_pair = real[:, None, None, :, None] & real[:, None, None, None, :]
        outputs["weights"] = tf.where(is_pair, weights[:rows, :, :, :length, :length], 0.0)
    if poolings:
        pooling = tf.cast(tf.concat(poolings, axis=1), tf.float32)
        outputs["pooling"] = tf.where(real[:, None, :], pooling[:rows, :, :length], 0.0)
    return outputs


def _stacked(found, needs):
    """Maps of all layers, float32 `(B, layers, heads, n, m)`. Pairs of heads stand in one row."""
    maps = [flat_heads(tf.cast(layer["weights"], tf.float32)) for layer in found.values() if "weights" in layer]
    heads = {weights.shape[1] for weights in maps}
    if len(heads) != 1:
        received = f"layers of {', '.join(map(str, sorted(heads)))} heads" if maps else "no maps"
        raise ValueError(f"{needs}, with as many heads in each layer. Received: {received}")
    return tf.stack(maps, axis=1)


def flat_heads(weights):
    """Maps `(B, h, n, m)`; pairs of heads stand in one row."""
    if weights.shape.rank == 4:
        return weights
    shape, heads = tf.shape(weights), weights.shape[1] * weights.shape[2]
    return tf.ensure_shape(tf.reshape(weights, [shape[0], heads, shape[3], shape[4]]), [None, heads, None, None])


def _names(tokenizer):
    """A function of ids to the names of their pieces; that of padding is empty."""
    names = list(map(tokenizer.id_to_token, range(tokenizer.vocabulary_size)))
    names[getattr(tokenizer, "pad_id", 0)] = ""
    names = tf.constant(names)
    return lambda ids: tf.gather(names, ids)
