"""From sentences to token ids and back, for both languages."""

import dataclasses
import functools

from keras_headattn.text import MosesPreprocessor, SentencePieceTokenizer, train_sentencepiece


@dataclasses.dataclass(frozen=True)
class Text:
    """Preprocessing and vocabulary of both languages.

    Args:
        source, target: `SentencePieceTokenizer`.
        source_moses, target_moses: `MosesPreprocessor`, or `None`.
    """

    source: SentencePieceTokenizer
    target: SentencePieceTokenizer
    source_moses: MosesPreprocessor | None = None
    target_moses: MosesPreprocessor | None = None

    def prepare_source(self, sentences):
        """The sentences as the source tokenizer takes them: after Moses' steps, if there are any."""
        return _prepare(self.source_moses, sentences)

    def encode_source(self, sentences):
        return self.source.encode(self.prepare_source(sentences))

    def encode_target(self, sentences):
        return self.target.encode(_prepare(self.target_moses, sentences))

    def references(self, sentences):
        """Target sentences to compare translations with: in lower case if the model knows no other."""
        return [sentence.lower() if self.target.lowercase else sentence for sentence in sentences]

    def decode(self, ids):
        """Sentences of target token ids `(B, m)`."""
        sentences = [sentence.decode("utf-8") for sentence in self.target.detokenize(ids).numpy()]
        return self.target_moses.undo(sentences) if self.target_moses else sentences


def make_text(config, train, folder):
    """Trains what the run's folder lacks, and loads the rest.

    Args:
        config: `TranslateConfig`.
        train: `ParallelCorpus`, or `None` if everything has been trained.
        folder: path of the run.

    Raises:
        ValueError: without `train`, if the folder lacks something.
    """
    names = ("source", "target")
    languages = dict(zip(names, (config.source_language, config.target_language), strict=True))
    moses = {name: None for name in names}
    if config.moses:
        for name in names:
            path = folder / f"moses.{name}.json"
            moses[name] = _moses(config, languages[name], path, train and getattr(train, name))
    files = {name: folder / ("vocabulary.model" if config.shared_vocabulary else f"{name}.model") for name in names}
    for name in names:
        if not files[name].exists():
            _need(train, files[name])
            sides = names if config.shared_vocabulary else (name,)
            sentences = (s for side in sides for s in _prepare(moses[side], getattr(train, side)))
            if config.lowercase:
                sentences = map(str.lower, sentences)
            size = name == "target" and config.target_vocabulary_size or config.vocabulary_size
            train_sentencepiece(sentences, files[name], size, config.vocabulary_type, seed=config.seed)
    load = functools.cache(functools.partial(SentencePieceTokenizer, lowercase=config.lowercase))
    return Text(load(files["source"]), load(files["target"]), moses["source"], moses["target"])


def check_text(config):
    """Whether the packages for both languages are there, which is to be told before anything long begins.

    Raises:
        ImportError: that names the package.
    """
    if config.moses:
        MosesPreprocessor(config.source_language), MosesPreprocessor(config.target_language)


def text_files(config):
    """Names of the files that `make_text` makes."""
    moses = ["moses.source.json", "moses.target.json"] if config.moses else []
    return moses + (["vocabulary.model"] if config.shared_vocabulary else ["source.model", "target.model"])


def _moses(config, language, path, sentences):
    if path.exists():
        return MosesPreprocessor.load(path)
    _need(sentences, path)
    preprocessor = MosesPreprocessor(language)
    if config.truecase:
        preprocessor.train_truecaser(sentences)
    preprocessor.save(path)
    return preprocessor


def _need(text, path):
    if text is None:
        raise ValueError(f"The run in {path.parent} is not complete: it has no {path.name}.")


def _prepare(preprocessor, sentences):
    return preprocessor(sentences) if preprocessor else sentences
