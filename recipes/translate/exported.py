"""Scores of a SavedModel that translates."""

from types import SimpleNamespace

from recipes.engine.exported import SavedModel
from recipes.translate.corpora import check_sizes, read_files
from recipes.translate.evaluation import OF_HEADS, check_metrics, evaluate, named_metrics
from recipes.translate.settings import files_of_tests


def evaluate_saved_model(config, path, files):
    """Translates the test sets of files by a SavedModel, and prints their scores.

    Of `config` metrics, languages, `lowercase` and columns of pairs count.
    """
    metrics = config.metrics, config.target_language, config.embeddings, config.comet_model
    if OF_HEADS in config.metrics:
        raise ValueError(f"--metrics {OF_HEADS} needs a run: a SavedModel shows no heads. Received: {path}")
    check_metrics(*metrics)
    how = config.columns, None, config.languages
    tests = {name: read_files(part, *how) for name, part in files_of_tests(files).items()}
    check_sizes(tests.values())
    model = SavedModel(path)
    if "translations" not in model.outputs:
        raise ValueError(f"The SavedModel must translate. Received: {path}, which gives {', '.join(model.outputs)}")
    decoding = f"saved_model:{path.parent.name}/{path.name}"
    evaluate(_Translator(model, config.lowercase), tests, named_metrics(*metrics), decoding)


class _Translator:
    """SavedModel as `evaluate` takes a `Translator`."""

    def __init__(self, model, lowercase):
        self.model, self.lowercase, self.text = model, lowercase, self

    def __call__(self, sentences, progress=None):
        found = self.model(sentences, progress=progress)["translations"]
        return [SimpleNamespace(text=text.decode("utf-8")) for text in found]

    def references(self, sentences):
        """Sentences to compare translations with, as `LanguagePair.references`."""
        return [sentence.lower() if self.lowercase else sentence for sentence in sentences]
