from keras import ops

from keras_headattn._types import Tensor


def graph_adjacency(triples: Tensor, entity_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the adjacency of the vertices of a graph given as triples.

    The N = E + 1 + 2 R vertices are E entities, a global vertex, R relations and R inverse relations. Each attends to
    itself; entities and the global vertex to each other; and for each triple the head to the relation, the relation to
    the tail, the tail to the inverse and the inverse to the head. Padding neither attends nor is attended to.

    Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers", section 3.1,
    and its public code.

    Args:
        triples: integers `(B, R, 3)`: index of the head entity, id of the relation (0 = padding), index of the tail
            entity.
        entity_mask: boolean `(B, E)`, True = an entity.

    Returns:
        Adjacency `(B, N, N)`, True where the row's vertex attends to the column's, and the mask of vertices `(B, N)`.

    >>> adjacency, mask = graph_adjacency(np.array([[[0, 3, 1]]]), np.array([[True, True]]))
    >>> adjacency.numpy()[0].astype(int).tolist()
    [[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 0, 0, 1]]
    """
    triples, entity_mask = ops.convert_to_tensor(triples), ops.convert_to_tensor(entity_mask)
    relation_mask = ops.not_equal(triples[:, :, 1], 0)
    batch, num_entities = ops.shape(entity_mask)
    mask = ops.concatenate([entity_mask, ops.ones((batch, 1), "bool"), relation_mask, relation_mask], axis=1)
    places = ops.arange(num_entities + 1, dtype=triples.dtype)  # of the entities and the global vertex
    is_head, is_tail = (ops.equal(triples[:, :, end, None], places) for end in (0, 2))  # (B, R, E + 1)
    to_relations = ops.swapaxes(ops.concatenate([is_head, is_tail], axis=1), 1, 2)
    to_entities = ops.concatenate([is_tail, is_head], axis=1)
    relations = ops.shape(to_entities)[1]
    numbers = ops.arange(num_entities + 1 + relations, dtype=triples.dtype)
    rows = ops.concatenate(
        [
            ops.concatenate([ops.zeros((batch, num_entities + 1, num_entities + 1), "bool"), to_relations], axis=2),
            ops.concatenate([to_entities, ops.zeros((batch, relations, relations), "bool")], axis=2),
        ],
        axis=1,
    )
    is_global, is_relation = ops.equal(numbers, num_entities), ops.greater(numbers, num_entities)
    touches_all = ops.logical_and(is_global, ops.logical_not(is_relation[:, None]))
    rows = ops.logical_or(rows, ops.logical_or(touches_all, ops.swapaxes(touches_all, 0, 1)))
    rows = ops.logical_or(rows, ops.equal(numbers, numbers[:, None]))
    return ops.logical_and(rows, ops.logical_and(mask[:, None], mask[:, :, None])), mask
