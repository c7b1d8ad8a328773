"""`python -m recipes.series`."""
