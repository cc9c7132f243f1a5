"""The rule sets that turn a program into its kernel."""

if __name__ == "rewrites":
    raise ImportError("import it as monocomp.rewrites, not as a top-level package")
