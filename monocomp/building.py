"""One thread at a time derives, lowers, emits and compiles.

Terms are shared between threads, and CPython 3.11 may fail to parse in two of them at once.
"""

from __future__ import annotations

import threading

BUILDING = threading.RLock()
