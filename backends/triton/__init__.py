"""Triton source from tile programs: emission, schedules, and running what was emitted."""
