"""What the compiler has from the machine that it runs on: files, a cache, one thread at a time."""
