"""What pyproject.toml cannot say: the README with links that lead to the repository, and extras made of others."""

import re
from pathlib import Path

from setuptools import setup

URL = "https://github.com/keras-headattn/keras_headattn"
# Links of the README lead to other files of the repository; a package index shows the README alone.
README = re.sub(r"\]\((?!https?://|#)", f"]({URL}/blob/main/", Path("README.md").read_text(encoding="utf-8"))

# nltk 3.9.0 cannot stem without a download of WordNet.
METRICS = ["sacrebleu>=2.4", "jiwer>=4.0", "rouge-score>=0.1.2", "nltk>=3.9.1", "sacremoses>=0.1.1"]
# Older matplotlib warns of a new pyparsing once it is imported, which is an error in tests.
RECIPES = ["num2words>=0.5.14", "matplotlib>=3.10.7", "scikit-learn>=1.5", "networkx>=3.6"] + METRICS
SERVING = ["starlette>=1.10", "uvicorn>=0.54"]  # the local server
TORCH = "torch>=2.13"
CTRANSLATE2 = "ctranslate2>=4.8.5"
MSGPACK = "msgpack>=1.1"  # checkpoints of t5x
TESTS = [
    "pytest>=8.3",
    "pytest-timeout>=2.4",
    "pytest-xdist>=3.8",
    "hypothesis>=6.115",
    "jax>=0.5",
    "scipy>=1.14",
    "ruff>=0.8",
    "import-linter>=2.17",
    "mypy>=2.0",
    "keras-hub>=0.32",
    "tokenizers>=0.22",
    "pyyaml>=6.0",
    "tensorflow-serving-api>=2.21",  # its messages, which warm-up requests are compared with
    MSGPACK,
]
# The parity oracle: end of life, its wheels stop at Python 3.11.
ADDONS = ['tensorflow-addons==0.23.0; python_version < "3.12"', 'tf-keras>=2.21; python_version < "3.12"']

setup(
    license="Apache-2.0",
    long_description=README,
    long_description_content_type="text/markdown",
    extras_require={
        "serving": SERVING,
        "gpu": ["tensorflow[and-cuda]>=2.21"],
        "metrics": METRICS,
        "recipes": RECIPES + SERVING,
        "torch": [TORCH],
        "t5x": [MSGPACK],
        "ctranslate2": [CTRANSLATE2],
        "loggers": ["wandb>=0.20", "mlflow>=3.0"],
        "profile": ["tensorboard-plugin-profile>=2.24"],
        "datasets": ["tensorflow-datasets>=4.9"],
        "chinese": ["jieba>=0.42.1"],
        "docs": ["sphinx>=9.0", "myst-parser>=5.2", "furo>=2025.12"] + RECIPES,
        "tests": TESTS + RECIPES + ADDONS + SERVING,
        "benchmarks": [TORCH, "transformers>=5.23", CTRANSLATE2],
        "addons": ADDONS,
    },
)
