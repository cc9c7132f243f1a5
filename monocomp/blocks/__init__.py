"""Block programs: what a schedule's form of a kernel does, as data (see `program`)."""
