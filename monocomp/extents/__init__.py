"""Sizes: intervals of integer terms, domains of folds, and what an extent is taken for."""
