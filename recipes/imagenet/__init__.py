"""`python -m recipes.imagenet`."""
