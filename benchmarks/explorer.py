"""How long the explorer takes, and how large its pages are: the longest derivations of the library.

    python -m benchmarks.explorer

Times are those of the processor, for a page that is made for the first time, with the kernel
compiled before.
"""

from __future__ import annotations

import time
from pathlib import Path

import monocomp as mc
from monocomp import explorer

_SHOWN = 5
_WARM = "softmax"  # so that imports are not timed


def main() -> None:
    """Print a table."""
    folder = Path(mc.library.__file__).parent
    explorer.page(mc.compile(folder / f"{_WARM}.mc"))
    kernels = {name: mc.compile(folder / f"{name}.mc") for name in mc.library.names()}
    by_steps = sorted(kernels, key=lambda name: -len(kernels[name].derivation))
    print(f"{'program':24}{'steps':>6}{'file KB':>9}{'cell KB':>9}{'file s':>8}{'cell s':>8}")
    for name in by_steps[:_SHOWN]:
        kernel = kernels[name]
        kernel.source()
        start = time.process_time()
        page = explorer.page(kernel)
        middle = time.process_time()
        cell = kernel.derivation._repr_html_()
        end = time.process_time()
        sizes = (len(text.encode()) / 1000 for text in (page, cell))
        print(f"{name:24}{len(kernel.derivation):6}", end="")
        print("".join(f"{size:9.0f}" for size in sizes), end="")
        print(f"{middle - start:8.2f}{end - middle:8.2f}")


if __name__ == "__main__":
    main()
