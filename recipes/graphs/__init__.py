"""`python -m recipes.graphs`."""
