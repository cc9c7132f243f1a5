"""`python -m monocomp`: the same as the command `monocomp`."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # until all is imported, as that stays
    from monocomp.command_line.main import main

    gc.freeze()
    gc.enable()
    sys.exit(main())
