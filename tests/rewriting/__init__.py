"""Tests of how rules are stated and applied."""
