"""Host programs: what they say, and that their readers agree."""
