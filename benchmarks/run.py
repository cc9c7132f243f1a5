"""Run the benchmarks that this machine can, and print their tables.

python -m benchmarks.run                       all of them
python -m benchmarks.run compile_time          some, by name
python -m benchmarks.run --json results.json   and keep the numbers
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.report import Report, options, write_json

NAMES = (
    "compile_time",
    "cpu",
    "cpu_memory",
    "gpu_forward",
    "gpu_heads",
    "gpu_short",
    "gpu_variants",
    "gpu_gradients",
    "gpu_area",
    "gpu_packed",
    "gpu_decode",
    "gpu_cross_entropy",
    "gpu_floor",
    "gpu_launch",
    "gpu_fp8",
    "gpu_side_inputs",
)


def measured(name: str, quick: bool) -> Report | str:
    """A benchmark's result, or why it cannot be measured here."""
    module = import_module(f"benchmarks.{name}")
    if name.startswith("gpu_"):
        gpu = import_module("benchmarks.gpu")
        found: Report | str = gpu.unavailable() or module.tables(gpu.Setting(quick))
    else:
        found = module.unavailable() or module.measure(quick)
    return found


def main() -> int:
    """Print the tables."""
    parser = options(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    reports: list[Report] = []
    for name in chosen.names or NAMES:
        found = measured(name, chosen.quick)
        if isinstance(found, str):
            print(f"{name}: not measured here, {found}.\n", flush=True)
            continue
        reports.append(found)
        print(found.text + "\n", flush=True)
    write_json(chosen.json, reports)
    wrong = [report.name for report in reports if not report.right]
    if wrong:
        print(f"wrong results: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
