"""Passes over block programs."""
