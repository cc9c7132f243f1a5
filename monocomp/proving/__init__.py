"""Proofs: the laws of monoids, by cases, with sympy."""
