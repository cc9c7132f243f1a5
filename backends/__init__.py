"""The backends that turn a tile program into something that runs."""

if __name__ == "backends":
    raise ImportError("import it as monocomp.backends, not as a top-level package")
