"""`python -m recipes.lm`."""
