"""Blocks of a Transformer one after the other. The maps of each go to the next."""


def build_blocks(blocks, *shapes):
    """Builds the blocks, all for inputs of these shapes."""
    map_shapes = None
    for block in blocks:
        block.build(*shapes, map_shapes)
        map_shapes = block.map_shapes


def call_blocks(blocks, x, *inputs, **arguments):
    """`x` after the blocks, which all have the same further inputs and arguments."""
    *_, last = [x, *block_outputs(blocks, x, *inputs, **arguments)]
    return last


def block_outputs(blocks, x, *inputs, **arguments):
    """Yields `x` after each block. Takes what `call_blocks` takes."""
    maps = {}
    for block in blocks:
        x, state = block(x, *inputs, previous_maps=maps, return_state=True, **arguments)
        maps = state["maps"]
        yield x
