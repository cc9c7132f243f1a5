"""The machine that the compiler runs on: files, a cache, one thread at a time."""
