"""`python -m recipes.tag`."""
