"""`python -m recipes.translate`."""
