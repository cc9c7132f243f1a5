"""Gradients: programs differentiated, as programs."""
