"""The parts of a run that TensorBoard shows. docs/tensorboard.md says how to look at them."""

import dataclasses
import math

import keras
import numpy as np
from tensorboard.plugins.hparams import api as hparams

from keras_headattn.data import pad_ids
from keras_headattn.training import AttentionImages, HeadNorms, TensorBoardCurves, Utilization, write_projector

# Logs that are one number from the first epoch to the last.
CONSTANT = ("compilations", "padding_share")
# Settings by which runs are told apart even where they have their defaults.
ALWAYS_SHOWN = ("attention", "num_heads", "seed")


def tensorboard_callbacks(config, run, transformer, text, corpus):
    """Curves, norms of heads, images of sentences of `corpus`, and settings, all in one folder."""
    log_dir = str(run.folder / "tensorboard")
    settings = hparams.KerasCallback(log_dir, shown_settings(config, run), trial_id=config.run)
    # Settings first: TensorBoard without its fast data server follows the newest file of a folder alone.
    callbacks = [settings, TensorBoardCurves(log_dir, CONSTANT, config.profile_steps), HeadNorms(log_dir)]
    if config.images:
        callbacks.append(AttentionImages(log_dir, _attention_of_samples(transformer, text, corpus)))
    return callbacks


def shown_settings(config, run):
    """The settings for HParams: those that change what is trained and differ from their defaults, and a few others.

    Args:
        config: settings dataclass.
        run: `Run`, whose `may_change` names settings that do not change what is trained.

    Returns:
        Dictionary of names to int, float or str.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    values = vars(config) | {name: value for name, value in config.shape.items() if name in ALWAYS_SHOWN}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float, str))
        and name not in run.may_change
        and (name in ALWAYS_SHOWN or value != defaults.get(name))
    }


def flops_utilization(config, transformer, batches):
    """`Utilization` by the weights that multiply a token; products of queries, keys and maps are left out."""
    encoder, decoder = (
        sum(math.prod(weight.shape) for block in blocks for weight in block.weights if weight.path.endswith("kernel"))
        for blocks in (transformer.encoder_blocks, transformer.decoder_blocks)
    )
    decoder += math.prod(transformer.target_embedding.embeddings.shape)  # the output layer's kernel has its shape
    source_tokens, target_tokens = batches.num_tokens
    return Utilization(6 * (encoder * source_tokens / target_tokens + decoder), config.peak_flops)


def show_embeddings(run, transformer, text):
    """Writes the embeddings of the tokens, for the projector."""
    embeddings = {"target": _labelled(transformer.target_embedding, text.target)}
    if transformer.source_embedding is not transformer.target_embedding:
        embeddings["source"] = _labelled(transformer.source_embedding, text.source)
    write_projector(run.folder / "tensorboard", embeddings)


def _labelled(embedding, tokenizer):
    return embedding.embeddings, pieces(tokenizer, range(embedding.embeddings.shape[0]))


def _attention_of_samples(transformer, text, corpus, number=2):
    """Function from the model to all maps of sentences of middling length, for `AttentionImages`."""
    order = sorted(range(len(corpus)), key=lambda i: abs(len(corpus.source[i].split()) - 10))[:number]
    source = text.encode_source([corpus.source[i] for i in order])
    target = text.encode_target([corpus.target[i] for i in order])
    shifted = [np.concatenate([[text.target.bos_id], ids[:-1]]) for ids in target]
    inputs = {
        "source": pad_ids(source, number, max(map(len, source))),
        "target": pad_ids(shifted, number, max(map(len, target))),
    }
    read = [pieces(text.source, ids) for ids in source]
    written = [pieces(text.target, ids) for ids in shifted]
    tokens = {"encoder": (read, read), "decoder": (written, written), "cross": (written, read)}

    def attend(model):
        _, out = transformer(inputs, return_intermediates=True)
        images = {}
        for path, found in out.items():
            block, attention = path.split("/")
            side, layer = block.split("_")
            kind = "cross" if attention == "cross_attention" else side
            name = "cross-attention" if kind == "cross" else f"{kind} self-attention"
            queries, keys = tokens[kind]
            batch, number = keras.ops.convert_to_numpy(found["weights"]), int(layer) + 1
            for sentence in range(len(order)):
                heads = batch[sentence].reshape(-1, *batch.shape[-2:])  # one head axis, for pairs of heads too
                images[f"sentence {sentence + 1}/{name}, layer {number}"] = (
                    heads,
                    queries[sentence],
                    keys[sentence],
                )
        return images

    return attend


def pieces(tokenizer, ids):
    """The tokens of these ids, with `_` for the mark of a word's beginning."""
    return [tokenizer.id_to_token(int(i)).replace("\N{LOWER ONE EIGHTH BLOCK}", "_") for i in ids]
