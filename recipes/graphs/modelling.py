"""The model that settings name."""

from keras_headattn.models import GraphWriter
from recipes.engine import heads
from recipes.graphs.settings import NUM_HEADS


def make_writer(config, vocabulary):
    """The writer of the settings, with random weights: `GraphWriter`.

    Args:
        config: `GraphsConfig`.
        vocabulary: `GraphVocabulary`.
    """
    writer = GraphWriter(
        vocabulary.vocabulary_size,
        vocabulary.entity_vocabulary_size,
        vocabulary.num_relations,
        vocabulary.title_vocabulary_size,
        num_layers=config.num_layers,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        num_encoder_layers=config.num_encoder_layers,
        attention=make_attention(config),
        num_heads=config.num_heads or NUM_HEADS,
        dropout=config.dropout,
        embedding_dropout=config.embedding_dropout,
        forbidden_ids=vocabulary.forbidden_ids,
        seed=config.seed,
        name="writer",
    )
    writer.build()
    return writer


def make_attention(config):
    """The template of the attention of the graph blocks."""
    return heads.make_attention(config, *config.attention_shape, dropout=config.dropout)
