"""What a program declares, and what a call binds to it: words that every stage shares."""
