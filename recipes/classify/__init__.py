"""`python -m recipes.classify`."""
