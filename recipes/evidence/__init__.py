"""The parts of `recipes.rationales`."""
