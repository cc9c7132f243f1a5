"""Programs that use monocomp, to read and to run."""
