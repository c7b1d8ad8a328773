"""The signature `attention` of SavedModels: predictions with attention maps."""

import inspect

import keras
import tensorflow as tf

from keras_headattn.layers import capture_intermediates
from keras_headattn.serving._likeliest import not_empty


def translation_attention(search, searcher, kept, source_tokenizer, target_tokenizer):
    """Returns a function from source ids to the best translations, read once more for their cross-attention maps."""
    source_name, target_name = piece_names(source_tokenizer), piece_names(target_tokenizer)
    model = searcher.model

    def attention(source):
        rows = tf.shape(source)[0]
        result = search(source)
        tokens = result["tokens"][:, 0]
        is_written = tf.cumsum(tf.cast(tokens == searcher.end_id, tf.int32), axis=1, exclusive=True) == 0
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(is_written, tf.int32), axis=1))
        longest = tf.maximum(longest, 0)  # an empty batch has none
        tokens, is_written = tokens[:, :longest], is_written[:, :longest]
        start = tf.fill([rows, 1], searcher.start_id)
        shifted = tf.where(is_written, tf.concat([start, tokens], axis=1)[:, :-1], 0)
        source_or_one, target = not_empty(source), not_empty(shifted)
        kernels, weights = kept.read()
        with keras.StatelessScope(weights), capture_intermediates() as intermediates:
            kwargs = {} if kernels is None else {"kernels": kernels}
            cache = model.init_cache(source_or_one, tf.shape(target)[1], **kwargs)
            model.decode_step(target, cache, 0, tf.range(tf.shape(target)[1]), None, **kwargs)
        maps = _weights_of(intermediates, suffix="cross_attention")
        maps = _stacked(maps, "`attention=True` needs a model with cross-attention of this library")
        is_pair = is_written[:, None, None, :, None] & (source > 0)[:, None, None, None, :]
        return {
            "translations": target_tokenizer.detokenize(tokens),
            "scores": result["scores"][:, 0],
            "source_pieces": source_name(source),
            "target_pieces": target_name(tokens),
            "weights": tf.where(is_pair, maps[:rows, :, :, :longest, : tf.shape(source)[1]], 0.0),
        }

    return attention


def generation_attention(generator, tokenizer, read, texts_of, options=None):
    """Returns a function from prompts to the first text of each, read once more for its attention maps.

    `read` returns ids of prompts, their lengths or `None`, and which were cut; `texts_of` the texts of tokens.
    """
    names = _texts_of_tokens(tokenizer)
    names = tf.constant(names + [""] * (generator.model.vocabulary_size - len(names)))

    def attention(prompts):
        ids, lengths, cut = read(prompts)
        result = generator(ids, lengths, options=options)
        parts = [
            tf.RaggedTensor.from_tensor(ids, lengths),
            tf.RaggedTensor.from_tensor(result["tokens"][:, 0], result["lengths"][:, 0]),
        ]
        start = tf.fill((tf.shape(ids)[0], len(generator.start_ids)), 0) + tf.constant([*generator.start_ids], tf.int32)
        whole = tf.concat([tf.RaggedTensor.from_tensor(start), *parts], axis=1)
        is_real = tf.sequence_mask(whole.row_lengths())
        whole = whole.to_tensor()
        with capture_intermediates() as intermediates:
            generator.model(not_empty(whole), training=False)
        maps = _stacked(_weights_of(intermediates), "`attention=True` needs a model with attention of this library")
        rows, length = tf.shape(whole)[0], tf.shape(whole)[1]
        is_pair = is_real[:, None, None, :, None] & is_real[:, None, None, None, :]
        return {
            "texts": texts_of(parts[1].to_tensor(-1)),
            "scores": result["scores"][:, 0],
            "pieces": tf.where(is_real, tf.gather(names, whole), ""),
            "weights": tf.where(is_pair, maps[:rows, :, :, :length, :length], 0.0),
            "is_cut": cut,
        }

    return attention


def text_attention(predict, model, tokenizer):
    """Returns a function from token ids to predictions and the attention maps of all heads."""
    name, pad_id = piece_names(tokenizer), getattr(tokenizer, "pad_id", 0)

    def attention(inputs):
        outputs = dict(predict(inputs))
        for (ids, maps, poolings), prefix in zip(attention_weights(model, inputs), ("", "second_"), strict=False):
            rows, length, real = tf.shape(ids)[0], tf.shape(ids)[1], ids != pad_id
            if maps or not poolings:
                weights = _stacked(maps, "`attention=True` needs a model with attention or pooling of this library")
                is_pair = real[:, None, None, :, None] & real[:, None, None, None, :]
                outputs[f"{prefix}weights"] = tf.where(is_pair, weights[:rows, :, :, :length, :length], 0.0)
            if poolings:
                pooling = tf.concat(poolings, axis=1)[:rows, :, :length]
                outputs[f"{prefix}pooling"] = tf.where(real[:, None, :], pooling, 0.0)
            outputs[f"{prefix}pieces"] = name(ids)
        return outputs

    return attention


def attention_weights(model, inputs):
    """Returns ids, attention maps `[(B, h, n, n), ...]` and pooling weights `[(B, h, n), ...]` of each text."""
    texts = inputs if isinstance(inputs, tuple) else (inputs,)
    padded = tf.nest.map_structure(not_empty, inputs)
    if "return_intermediates" in inspect.signature(model.call).parameters:
        _, layers = model(padded, training=False, return_intermediates=True)
    elif len(texts) == 1:
        with capture_intermediates() as layers:
            model(padded, training=False)
    else:
        layers = {}
    results = []
    for text, side in zip(texts, ("first/", "second/"), strict=False):
        weights = _weights_of(layers, side if len(texts) > 1 else "")
        maps, poolings = ([x for x in weights if x.shape.rank == rank] for rank in (4, 3))
        results.append((text["token_ids"] if isinstance(text, dict) else text, maps, poolings))
    return results


def _weights_of(layers, prefix="", suffix=""):
    """Returns the weights of layers by path, float32; pairs of heads become one axis."""
    weights = []
    for path, layer in layers.items():
        if "weights" in layer and path.startswith(prefix) and path.endswith(suffix):
            x = tf.cast(layer["weights"], tf.float32)
            if x.shape.rank == 5:
                shape, heads = tf.shape(x), x.shape[1] * x.shape[2]
                x = tf.reshape(x, [shape[0], heads, shape[3], shape[4]])
                x = tf.ensure_shape(x, [None, heads, None, None])
            weights.append(x)
    return weights


def _stacked(maps, needs):
    """Returns maps of all layers, `(B, layers, heads, n, m)`."""
    heads = {weights.shape[1] for weights in maps}
    if len(heads) != 1:
        received = f"layers of {', '.join(map(str, sorted(heads)))} heads" if maps else "no maps"
        raise ValueError(f"{needs}, with as many heads in each layer. Received: {received}")
    return tf.stack(maps, axis=1)


def _texts_of_tokens(tokenizer):
    """Returns the text of each token by itself, or its name where it has none, such as a part of a character."""
    texts = tokenizer.detokenize(tf.range(tokenizer.vocabulary_size)[:, None]).numpy()
    texts = [text.decode("utf-8", "replace") for text in texts]
    return [tokenizer.id_to_token(i) if text in ("", "\ufffd") else text for i, text in enumerate(texts)]


def piece_names(tokenizer):
    """Returns a function from ids to the names of their pieces, empty for padding."""
    names = list(map(tokenizer.id_to_token, range(tokenizer.vocabulary_size)))
    names[getattr(tokenizer, "pad_id", 0)] = ""
    names = tf.constant(names)
    return lambda ids: tf.gather(names, ids)
