"""Export a classifier of texts, serve it on this machine, and ask it over REST.

    python examples/serve.py
    python examples/serve.py --keep-serving

A small classifier of reviews is trained on sentences that are made up here, and written as a SavedModel, which holds
the vocabulary and takes plain text. `python -m recipes.serve` serves it as TensorFlow Serving does, and the requests
below are made with Python's standard library alone, as any other program could make them.

It prints the version that is served, the classes of three texts, the words that the model looked at most, and the
command that serves the same folder with TensorFlow Serving. With `--keep-serving`, open the address that is printed in
a browser to see where each head looks; Ctrl-C ends it.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import random
import subprocess
import sys
import urllib.request

import keras
import numpy as np

import keras_headattn as ka

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--folder", type=pathlib.Path, default="saved_models/example_reviews", help="default: %(default)s")
parser.add_argument("--port", type=int, default=8501, help="0: any that is free; default: %(default)s")
parser.add_argument("--epochs", type=int, default=5, help="default: %(default)s")
parser.add_argument("--keep-serving", action="store_true", help="serve until Ctrl-C")
args = parser.parse_args()
keras.utils.set_random_seed(0)

# ------------------------------------------------------------------------------
# A classifier. Any Keras model from token ids to logits will do.

class_names = ["negative", "positive"]
words = {"negative": ["bad", "boring", "awful", "slow"], "positive": ["good", "exciting", "lovely", "clever"]}
subjects = ["the film", "the plot", "this book", "her new song", "the acting"]
forms = ["{} is {}", "{} was rather {}", "I thought that {} was {}", "{} is {} from beginning to end"]
examples = [
    (form.format(subject, word), label)
    for label, name in enumerate(class_names)
    for form, subject, word in itertools.product(forms, subjects, words[name])
]
random.Random(0).shuffle(examples)
texts, labels = [text for text, _ in examples], np.array([label for _, label in examples])

tokenizer = ka.text.WordTokenizer(ka.text.learn_words(texts))
encoder = ka.models.TransformerEncoder(
    tokenizer.vocabulary_size, hidden_dim=32, intermediate_dim=64, num_heads=4, attention="talking_heads", dropout=0.1
)
pooling = ka.layers.SelfAttentivePooling(num_heads=2, hidden_dim=16)
model = ka.models.SentenceClassifier(encoder, num_classes=2, pooling=pooling, mlp_dim=32, dropout=0.1)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    jit_compile=ka.training.default_jit(),
)
model.fit(tokenizer(texts), labels, batch_size=16, epochs=args.epochs, verbose=2)

# ------------------------------------------------------------------------------
# Export. `attention=True` adds a signature that returns the attention maps, too.

path = ka.serving.export_classifier(model, tokenizer, class_names, args.folder, max_length=64, attention=True)
print(f"\nWritten: {path}")

# ------------------------------------------------------------------------------
# Serve and ask.


def ask(url, request=None):
    """Returns the JSON that a server answers, to a GET or, with a request, to a POST."""
    body = None if request is None else json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as response:
        return json.load(response)


reviews = ["the film is lovely", "her new song was rather boring", "I thought that the plot was clever"]
name = args.folder.name
command = [sys.executable, "-m", "recipes.serve", str(args.folder.resolve()), "--port", str(args.port)]
checkout = pathlib.Path(__file__).resolve().parents[1]
server = subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True)
try:
    address = next(line.split()[-1] for line in server.stdout if line.startswith("The page: "))
    url = f"{address}v1/models/{name}"
    status = ask(url)["model_version_status"][0]
    print(f"\nGET {url}\n  version {status['version']} is {status['state']}")

    print(f"\nPOST {url}:predict")
    answer = ask(f"{url}:predict", {"instances": reviews})
    for review, prediction in zip(reviews, answer["predictions"], strict=True):
        print(f"  {review}: {prediction['classes'][0]} ({prediction['scores'][0]:.3f})")

    print(f"\nPOST {url}:predict, signature attention")
    answer = ask(f"{url}:predict", {"signature_name": "attention", "instances": reviews})
    for review, prediction in zip(reviews, answer["predictions"], strict=True):
        weights = np.mean(prediction["pooling"], axis=0)  # (heads, words) to (words,)
        print(f"  {review}: looks most at {prediction['pieces'][weights.argmax()]!r} ({weights.max():.2f})")

    print("\nThe same folder in TensorFlow Serving:")
    volume = f"{args.folder.resolve()}:/models/{name}"
    print(f'  docker run -p 8501:8501 -v "{volume}" -e MODEL_NAME={name} tensorflow/serving')
    print(f"  curl http://localhost:8501/v1/models/{name}:predict -d '{json.dumps({'instances': reviews[:1]})}'")

    if args.keep_serving:
        print(f"\nOpen {address} in a browser. Ctrl-C ends the server.")
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()
finally:
    server.terminate()
    server.communicate()
