"""Schedules: which are legal, which come first, and the search that measures them."""
