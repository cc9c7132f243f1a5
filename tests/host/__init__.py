"""Host programs: what they say, that they are checked, and that their readers agree."""
