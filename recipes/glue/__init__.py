"""`python -m recipes.glue`."""
