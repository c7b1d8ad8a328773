"""The parts of `recipes.graphs`."""
