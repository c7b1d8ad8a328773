"""The parts of `recipes.translate`."""
