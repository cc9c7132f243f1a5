"""`python -m monocomp`: the same as the command `monocomp`."""

from __future__ import annotations

import sys

from monocomp.command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
