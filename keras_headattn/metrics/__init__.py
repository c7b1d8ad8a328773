"""Measures of translations and classifications. No optional package is imported before it is used."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_bleu": ["bleu", "tokenized_bleu"],
        "_chrf": ["chrf"],
        "_cider": ["cider"],
        "_evaluate_translations": ["evaluate_translations"],
        "_matthews_correlation_coefficient": ["MatthewsCorrelationCoefficient"],
        "_meteor": ["meteor"],
        "_rouge": ["rouge_l", "rouge_n"],
        "_score": ["Score"],
        "_sentences": ["words"],
        "_wer": ["wer"],
        "_word_vectors": ["read_word_vectors", "word_vector_width"],
        "_write_translations": ["write_translations"],
        "_yisi_1": ["yisi_1"],
    },
)
