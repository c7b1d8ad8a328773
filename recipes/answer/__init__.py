"""`python -m recipes.answer`."""
