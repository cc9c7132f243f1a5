"""The tests of monocomp."""
