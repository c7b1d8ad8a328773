"""The parts of `recipes.classify`."""
