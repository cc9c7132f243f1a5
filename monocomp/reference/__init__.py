"""The oracle: the naive meaning of the language, shared with nothing else."""
