"""Reports of a run while it trains."""

from keras_headattn.training import (
    ClusterReport,
    Compilations,
    EpochScore,
    GradientNorm,
    Resume,
    Throughput,
    TimeLimit,
    is_chief,
)
from recipes.engine.checkpoints import SaveEpochs, StopWhenStalled
from recipes.translation.evaluation import named_metrics
from recipes.translation.tensorboard import flops_utilization, tensorboard_callbacks
from recipes.translation.translator import Translator


def make_callbacks(config, run, transformer, text, corpora, batches):
    """Throughput, BLEU, saving, TensorBoard: in the order in which they read each other's logs."""
    callbacks = [Throughput(lambda: batches.num_tokens["target"])]
    if config.peak_flops:
        callbacks.append(flops_utilization(config, transformer, batches))
    if config.gradient_norm:
        callbacks.append(GradientNorm())
    if config.attention == "disentangled_mask":
        callbacks.append(ClusterReport())
    if config.validation_sentences:
        callbacks.append(_validation_bleu(config, transformer, text, corpora.validation))
    callbacks.append(SaveEpochs(run, transformer, config.average, config.average_of))
    # What writes to TensorBoard is not to be remembered: a run's folder may be moved.
    shown = [EpochScore(lambda model: sum(batches.padding_share.values()) / 2, "padding_share")]
    if is_chief(transformer.distribute_strategy):  # of several workers, the first one writes; all take part in scores
        shown += [Compilations(config.xla_cache)]
        shown += tensorboard_callbacks(config, run, transformer, text, corpora.validation)
    else:
        callbacks = [callback for callback in callbacks if isinstance(callback, (EpochScore, GradientNorm))]
    # Nor is what ends training: the same command, with more time or patience, goes on.
    ends = [StopWhenStalled(run, config.patience)]
    if config.time_limit:
        ends.append(TimeLimit(60 * config.time_limit))
    return [Resume(run.checkpoints, batches, callbacks, every=config.save_steps), *shown, *ends]


def _validation_bleu(config, transformer, text, corpus):
    sentences = corpus.source[: config.validation_sentences]
    references = text.references(corpus.target[: config.validation_sentences])
    translator = Translator(transformer, text, config, beam_size=1)
    (bleu,) = named_metrics(["bleu"], config.target_language)

    def score(model):
        return bleu([translation.text for translation in translator(sentences)], references).value

    return EpochScore(score, "val_bleu")
