"""`python -m recipes.pretrain`."""
