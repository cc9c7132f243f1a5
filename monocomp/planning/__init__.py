"""Planning: which kernels compute a program at given sizes, and why these."""
