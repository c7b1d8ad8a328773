"""`python -m recipes.rationales`."""
