"""Small settings of the recipe of sentence classification."""

from recipes.classify.settings import ClassifyConfig
from recipes.engine.config import override

TINY = dict(
    model_arguments=dict(embedding_dim=4, hidden_dim=3, mlp_dim=5, factor_dim=3),
    pooling_heads=2,
    pooling_dim=3,
    num_buckets=2,
    epochs=2,
)


def config_of(table, **options):
    columns = dict(text_column="review", label_column="stars")
    files = dict(train=(str(table),), run=str(table.parent / "run"), export=None, max_length=8, batch_size=8)
    return override(ClassifyConfig(), TINY | columns | files | options)
