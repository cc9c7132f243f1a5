"""Declarations of a program, and what a call binds to them: words that every stage shares."""
