"""The parts of `recipes.imagenet`."""
