"""Time of explaining reviews by LIME, and what share of it is not the model.

    python -m benchmarks.rationales               100 reviews by a BERT of 4 x 256, 10 by one as large as all-MiniLM-L6
    python -m benchmarks.rationales --reviews 20  fewer, and a tenth of them

Reviews have 200 made-up words, each a piece; LIME has 100 samples of each. The model is all that runs in its compiled
function; the rest is drawing samples, joining words, tokenising, padding and fitting linear models.
"""

import argparse
import time

from benchmarks.minilm import CLASSES, FEED_FORWARD, HEADS, LAYERS, WIDTH, make_texts, tokens
from benchmarks.timing import cores, limit_threads, machine, report, table

WORDS, SAMPLES = 200, 100
SIZES = {
    "4 layers of 256, 4 heads": (1, dict(hidden_dim=256, intermediate_dim=1024, num_layers=4, num_heads=4)),
    f"{LAYERS} layers of {WIDTH}, {HEADS} heads": (
        10,
        dict(hidden_dim=WIDTH, intermediate_dim=FEED_FORWARD, num_layers=LAYERS, num_heads=HEADS),
    ),
}


def make_classifier(sizes):
    """Returns a `Classifier` of random weights, and a list that collects the seconds of each batch."""
    import keras

    from keras_headattn.models import Bert, EncoderClassifier
    from keras_headattn.serving import Classifier
    from keras_headattn.text import WordPieceTokenizer

    keras.utils.set_random_seed(0)
    vocabulary = tokens()
    model = EncoderClassifier(Bert(len(vocabulary), **sizes), len(CLASSES))
    model.build()
    classifier, seconds = Classifier(model, WordPieceTokenizer(vocabulary), CLASSES, max_length=256), []
    run = classifier._run

    def timed_run(inputs):
        start = time.perf_counter()
        outputs = run(inputs)
        outputs.numpy()  # waits for it
        seconds.append(time.perf_counter() - start)
        return outputs

    classifier._run = timed_run
    return classifier, seconds


def measure(reviews, sizes):
    """Returns the seconds of explaining this many reviews, and those of the model."""
    from keras_headattn.analysis import lime
    from recipes.engine.progress import progress_bar

    classifier, seconds = make_classifier(sizes)
    words = make_texts(2 * reviews, WORDS + 2)[:reviews]  # rows are the longer, the earlier
    texts = [" ".join((text.split() * 2)[:WORDS]) for text in words]
    classifier.probabilities([" ".join(texts[0].split()[:count]) for count in (5, 20, 50, 100, 200)])  # compiles
    seconds.clear()
    start = time.perf_counter()
    lime(classifier.probabilities, texts, samples=SAMPLES, progress=progress_bar("Explaining", len(texts)))
    return time.perf_counter() - start, sum(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reviews", type=int, default=100, help="[100]")
    options = parser.parse_args()
    limit_threads(cores())
    rows = []
    for name, (part, sizes) in SIZES.items():
        reviews = max(1, options.reviews // part)
        whole, model = measure(reviews, sizes)
        rows.append([name, reviews, f"{whole:.1f}", f"{whole / reviews:.2f}", f"{1 - model / whole:.1%}"])
    header = ["BERT", "reviews", "seconds", "seconds a review", "not the model"]
    report(
        "rationales",
        f"# LIME: reviews of {WORDS} words, {SAMPLES} samples",
        __doc__.strip().rpartition("\n\n")[2],
        table(header, rows),
        "\n".join(machine("tensorflow", "keras", "numpy")),
    )


if __name__ == "__main__":
    main()
