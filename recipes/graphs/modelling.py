"""The graph writer that settings name."""

from keras_headattn.models import GraphWriter
from recipes.engine import modelling
from recipes.engine.config import passing_on
from recipes.graphs.settings import NUM_HEADS


def make_writer(config, vocabulary):
    """Makes the `GraphWriter` of the settings, with random weights, for a `GraphVocabulary`."""
    with passing_on("model_arguments"):
        writer = GraphWriter(
            vocabulary.vocabulary_size,
            vocabulary.entity_vocabulary_size,
            vocabulary.num_relations,
            vocabulary.title_vocabulary_size,
            **config.model_arguments,
            attention=make_attention(config),
            num_heads=config.num_heads or NUM_HEADS,
            forbidden_ids=vocabulary.forbidden_ids,
            seed=config.seed,
            name="writer",
        )
    writer.build()
    return writer


def make_attention(config):
    """Makes the template of the attention of the graph blocks."""
    return modelling.make_attention(config, *config.attention_shape, dropout=config.model_argument("dropout"))
