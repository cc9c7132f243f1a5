"""Run kernels on a GPU under NVIDIA's compute-sanitizer.

    python3 -m tests.gpu.sanitized                  every program, with every tool
    python3 -m tests.gpu.sanitized causal varlen    these

Each call is a process of its own, for at most ten minutes. The tools find accesses outside of
tensors, races in shared memory, and barriers that some threads do not reach. Races in Gluon are
not looked for: where warps have tasks of their own, `racecheck` reports the words by which Triton
begins these, and numbers that barriers in memory order (causal attention, CUDA 13.0, 2026-11-30).
`tests.backends.gluon.machine` looks for them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import torch

import monocomp as mc
from monocomp.errors import UnsupportedError
from tests.backends.gluon.test_dialect import GRADIENTS, SUPPORTED
from tests.backends.library_cases import CASES
from tests.backends.running import exact
from tests.backends.tolerances import BESIDE_EAGER

# Where CUDA's toolkit puts it, be it in PATH or not.
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
TOOLS = {"gluon": ("memcheck", "synccheck"), "triton": ("memcheck", "racecheck", "synccheck")}
SIZES = ((70, 200), (256, 130))  # of queries and keys: some blocks are cut off, some left unread
LIMIT = 600  # seconds
_RUN = "--run"


def run(name: str, backend: str) -> None:
    """Call a program and its gradient, and compare."""
    case = CASES[name]
    for q, k in SIZES:
        inputs = case.inputs(case.sizes(q, k, 64, 64), torch.bfloat16)
        on_gpu = {n: t.cuda() for n, t in inputs.items()}
        for t in on_gpu.values() if name in GRADIENTS else ():
            t.requires_grad_(t.is_floating_point())
        try:
            found = mc.compile(case.text, backend=backend)(**on_gpu, **case.params)
            results = found if isinstance(found, tuple) else (found,)
            if name in GRADIENTS:  # whose values other tests compare
                sum(result.sum() for result in results).backward()
        except UnsupportedError:
            continue
        wanted = exact(case.text, inputs, **case.params)
        usual = case.in_eager_torch({n: t.detach() for n, t in on_gpu.items()})
        for result, right, eager in zip(results, wanted, usual, strict=True):
            BESIDE_EAGER[torch.bfloat16].check(result.detach().cpu(), right, eager.cpu())


def main(names: list[str]) -> int:
    """Return 0 if no tool finds anything, 1 if one does, 2 if there is no tool or no GPU."""
    if names[:1] == [_RUN]:
        run(*names[1:])
        return 0
    sanitizer = shutil.which("compute-sanitizer", path=PLACES)
    if sanitizer is None or not torch.cuda.is_available():
        print("needs a GPU and compute-sanitizer, which CUDA's toolkit holds", file=sys.stderr)
        return 2
    # Else torch keeps what it frees, and an access outside of a tensor hits another one.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    failed = []
    for name in names or [n for n in SUPPORTED if n != "dropout"]:
        for backend, tool in ((b, tool) for b, tools in TOOLS.items() for tool in tools):
            command = [sanitizer, "--tool", tool, "--error-exitcode", "1"]
            command += [sys.executable, "-m", "tests.gpu.sanitized", _RUN, name, backend]
            try:
                subprocess.run(command, env=environment, timeout=LIMIT, check=True)
            except subprocess.SubprocessError as fault:
                failed.append(name)
                print(f"{name}, {backend}, {tool}: {fault}", flush=True)
            else:
                print(f"{name}, {backend}, {tool}: ok", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
