"""Passes over tile programs: what a block program will be like, decided before it is built."""
