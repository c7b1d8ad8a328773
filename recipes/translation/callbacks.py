"""What a run reports while it trains."""

import keras
import numpy as np
from tensorboard.plugins.hparams import api as hparams

from keras_headattn.metrics import bleu
from keras_headattn.training import AttentionImages, EpochScore, Resume, Throughput, TimeLimit
from recipes.data.buckets import pad_ids
from recipes.translation.checkpoints import SaveEpochs, StopWhenStalled
from recipes.translation.translator import Translator


def make_callbacks(config, run, transformer, text, corpora, batches):
    """Throughput, BLEU, saving, TensorBoard: in the order in which they read each other's logs."""
    log_dir = str(run.folder / "tensorboard")
    callbacks = [Throughput(lambda: batches.num_tokens[1])]
    if config.validation_sentences:
        callbacks.append(_validation_bleu(config, transformer, text, corpora.validation))
    callbacks.append(SaveEpochs(run, transformer, config.average, config.average_of))
    callbacks.append(keras.callbacks.TensorBoard(log_dir, write_graph=False))
    if config.images:
        callbacks.append(_attention_images(config, log_dir, transformer, text, corpora.validation))
    settings = vars(config) | config.shape
    settings = {name: value for name, value in settings.items() if isinstance(value, (int, float, str))}
    callbacks.append(hparams.KerasCallback(log_dir, settings, trial_id=config.run))
    # These two are not to be remembered: the same command, with more time or patience, goes on.
    ends = [StopWhenStalled(run, config.patience)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    return [Resume(run.checkpoints, batches, callbacks, every=config.save_steps), *ends]


def _validation_bleu(config, transformer, text, corpus):
    sentences = corpus.source[: config.validation_sentences]
    references = text.references(corpus.target[: config.validation_sentences])
    translator = Translator(transformer, text, config, beam_size=1)

    def score(model):
        return bleu([translation.text for translation in translator(sentences)], references).value

    return EpochScore(score, "val_bleu")


def _attention_images(config, log_dir, transformer, text, corpus, number=2):
    """Cross-attention of the last decoder block on sentences of middling length."""
    order = sorted(range(len(corpus)), key=lambda i: abs(len(corpus.source[i].split()) - 10))[:number]
    source = text.encode_source([corpus.source[i] for i in order])
    target = text.encode_target([corpus.target[i] for i in order])
    shifted = [np.concatenate([[text.target.bos_id], ids[:-1]]) for ids in target]

    def attend(model):
        longest = max(map(len, source)), max(map(len, target))
        inputs = {
            "source": pad_ids(source, len(source), longest[0]),
            "target": pad_ids(shifted, len(shifted), longest[1]),
        }
        _, maps = transformer(inputs, return_attention_scores=True)
        maps = keras.ops.convert_to_numpy(maps["cross"][-1])
        maps = maps.reshape(len(maps), -1, *maps.shape[-2:])  # one head axis, for pairs of heads too
        return maps, [_pieces(text.target, ids) for ids in target], [_pieces(text.source, ids) for ids in source]

    return AttentionImages(log_dir, attend)


def _pieces(tokenizer, ids):
    return [tokenizer.id_to_token(int(i)).replace("\N{LOWER ONE EIGHTH BLOCK}", "_") for i in ids]
