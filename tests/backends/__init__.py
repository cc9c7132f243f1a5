"""Tests of the backends: what they compute, the source that they emit, and how they are called."""
