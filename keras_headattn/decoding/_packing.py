"""Fewer tensors that the loop of a search reads."""

import collections

import keras
from keras import ops


def pack_vectors(tree):
    """Stacks vectors of the same size; returns a function that returns the tree again.

    Without XLA, TensorFlow's loops run three operations a step for each tensor that they read.
    """
    leaves = keras.tree.flatten(tree)
    groups = collections.defaultdict(list)
    for i, leaf in enumerate(leaves):
        if ops.is_tensor(leaf) and len(leaf.shape) == 1:
            groups[leaf.shape[0], leaf.dtype].append(i)
    packed = [(group, ops.stack([leaves[i] for i in group])) for group in groups.values() if len(group) > 1]

    def unpack():
        unpacked = dict(enumerate(leaves))
        for group, stacked in packed:
            unpacked.update(zip(group, ops.unstack(stacked, len(group)), strict=True))
        return keras.tree.pack_sequence_as(tree, list(unpacked.values()))

    return unpack
