"""Tile programs with their choices written out as block programs."""
