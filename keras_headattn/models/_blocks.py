"""The stack of blocks that models share."""

from keras_headattn.layers._cache import shared_row_indices


class Stack:
    """Blocks that run in turn, each with the state of the one before; `GraphBlock` takes none.

    Has no weights: the model keeps the blocks in its own list, where Keras finds them. `relative_positions` replace
    those of all self-attentions.
    """

    def __init__(self, blocks, relative_positions=None, carries_logits=True):
        self.blocks = blocks
        self.carries_logits = carries_logits
        if relative_positions is not None:
            for block in blocks:
                block.relative_positions = relative_positions

    def build(self, *shapes):
        """Builds all blocks for inputs of these shapes."""
        logits_shapes = None
        for block in self.blocks:
            if self.carries_logits:
                block.build(*shapes, logits_shapes)
                logits_shapes = block.logits_shapes
            else:
                block.build(*shapes)

    def __call__(self, x, *inputs, **arguments):
        """Returns `x` after the last block."""
        *_, (x, _) = self.run(x, *inputs, **arguments)
        return x

    def run(self, x, *inputs, block_arguments=None, **arguments):
        """Yields `x` and the state after each block; `block_arguments` lists arguments of single blocks."""
        state = {}
        for block, extra in zip(self.blocks, block_arguments or [{}] * len(self.blocks), strict=True):
            if self.carries_logits:
                passed_on = {"previous_logits": state.get("logits", {}), "first_values": state.get("first_values")}
                x, state = block(x, *inputs, return_state=True, **passed_on, **arguments, **extra)
            else:
                x, state = block(x, *inputs, **arguments, **extra), {}
            yield x, state

    # Decoding

    def decoding_kernels(self):
        return [block.decoding_kernels() for block in self.blocks]

    def init_cache(self, memory, max_length, kernels=None):
        """Returns a list of the blocks' caches; `kernels` are of `decoding_kernels`, or `None`."""
        kernels = kernels or [None] * len(self.blocks)
        return [
            block.init_cache(memory, max_length, block_kernels)
            for block, block_kernels in zip(self.blocks, kernels, strict=True)
        ]

    def step(self, x, caches, kernels=None, **arguments):
        """Returns `x` after the last block, and the caches for the next step."""
        kernels = kernels or [None] * len(self.blocks)
        block_arguments = [
            {"cache": cache, "kernels": block_kernels} for cache, block_kernels in zip(caches, kernels, strict=True)
        ]
        with shared_row_indices():
            states = list(self.run(x, block_arguments=block_arguments, training=False, **arguments))
        return states[-1][0], [state["cache"] for _, state in states]

    def grow_cache(self, caches, max_length):
        return [block.grow_cache(cache, max_length) for block, cache in zip(self.blocks, caches, strict=True)]

    def reorder_cache(self, caches, rows):
        return [block.reorder_cache(cache, rows) for block, cache in zip(self.blocks, caches, strict=True)]

    @property
    def attentions(self):
        """List of all attention layers of the blocks."""
        return [layer for block in self.blocks for layer in block.attentions.values()]
