"""The parts of `recipes.glue`."""
