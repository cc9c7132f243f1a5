"""Translate a program as a user gives it to equations."""
