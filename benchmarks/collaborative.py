"""Accuracy and size of a fine-tuned encoder whose attention becomes collaborative heads, by their rank.

    python -m benchmarks.collaborative all-MiniLM-L6-v2 sst2_sick --sentences 2000

The folders have a checkpoint of Hugging Face, and sentiment-train and sentiment-dev with a sentence, a tab and 0 or 1 a
line. Each rank is measured right after the conversion of the same fine-tuned model, and after one more epoch.
"""

import argparse
import pathlib

import numpy as np

from benchmarks.timing import machine, report, table


def read(path, tokenizer, count=None, seed=1):
    """Returns token ids and classes of some sentences, or all."""
    lines = [line.rstrip("\n").rpartition("\t") for line in path.open(encoding="utf-8")]
    if count is not None:
        lines = [lines[i] for i in np.random.default_rng(seed).permutation(len(lines))[:count]]
    ids = np.asarray(tokenizer([text.strip() for text, _, _ in lines]))
    return ids, np.array([int(label) for _, _, label in lines])


def compiled(model, rate):
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(rate), loss, metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[384, 288, 192, 96])
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    import keras

    from keras_headattn.interop import from_pretrained, to_collaborative, tokenizer_of
    from keras_headattn.models import EncoderClassifier

    keras.utils.set_random_seed(args.seed)
    tokenizer = tokenizer_of(args.checkpoint, max_length=64)
    train = read(args.data / "sentiment-train", tokenizer, args.sentences, args.seed)
    validation = read(args.data / "sentiment-dev", tokenizer)
    encoder = from_pretrained(args.checkpoint, pooler=False, strict=False)
    model = compiled(EncoderClassifier(encoder, 2, kind="linear", pooling="mean", seed=args.seed), args.rate)
    model.fit(*train, batch_size=32, verbose=2)

    def accuracy(classifier):
        return f"{100 * classifier.evaluate(*validation, batch_size=64, verbose=0, return_dict=True)['accuracy']:.1f}"

    def weights(classifier):
        return f"{sum(block.attention.count_params() for block in classifier.encoder.blocks):,}"

    rows = []
    before = model.get_weights()
    for rank in (None, *args.ranks):
        model.set_weights(before)
        classifier, errors = to_collaborative(model, rank) if rank else (model, {"": 0})
        compiled(classifier, args.rate)
        error = f"{np.mean(list(errors.values())):.2f}"
        first = accuracy(classifier)
        classifier.fit(*train, batch_size=32, verbose=2)
        rows.append([rank or "multi-head", weights(classifier), error, first, accuracy(classifier)])
        print(rows[-1], flush=True)
    report(
        "collaborative",
        "# Collaborative heads by rank",
        f"{args.sentences:,} sentences of SST-2, one epoch at a rate of {args.rate}, seed {args.seed}; accuracy on its "
        "validation set, right after the conversion and after one more epoch.",
        table(["shared_dim", "weights of attention", "relative error", "accuracy", "after an epoch"], rows),
        "\n".join(machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
