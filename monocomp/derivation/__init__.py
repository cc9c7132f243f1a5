"""Derivations: the order of the rewrites, their steps, and what certifies or refuses them."""
