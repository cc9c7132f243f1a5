"""Searches schedules of library programs on a GPU, and keeps all that was measured."""
