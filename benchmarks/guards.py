"""What guards cost: emitted kernels beside the same kernels without them, timed in turn.

    python -m benchmarks.guards

A guard is a `tl.where` on a special value: 0 where a sum is over nothing, a finite number where a
maximum is infinite, no product with a weight of 0. Without them the results on ordinary inputs are
the same, which is checked; those at special points are not.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import monocomp as mc
from benchmarks import errors, gpu
from benchmarks.report import listed, table, today

ROUNDS = 9
HEAD = "input Q[h,q,d], K[h,k,d], V[h,k,e]"
LOGITS = "S[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)"
ENTROPY = "O[h,q] = -sum[k](softmax[k](S[h,q,k]) * log_softmax[k](S[h,q,k]))"
WEIGHTED = "O[h,q,e] = sum[k](exp(S[h,q,k]) * M[h,k] * V[h,k,e]) / sum[k](exp(S[h,q,k]) * M[h,k])"
ATTENTION = {"h": 64, "q": 4096, "k": 4096, "d": 128, "e": 128}
MATRIX = {"i": 16384, "k": 8192}
LOSS = {"t": 4096, "v": 32768, "c": 1024, "d": 1024}
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "attention": (f"{HEAD}\n{LOGITS}\nO[h,q,e] = softmax[k](S[h,q,k]) * V[h,k,e]", ATTENTION),
    "causal": (
        f"{HEAD}\n{LOGITS}\nO[h,q,e] = softmax[k if k <= q](S[h,q,k]) * V[h,k,e]",
        ATTENTION,
    ),
    "added mask": (
        f"{HEAD}, B[h,k]\n{LOGITS} + B[h,k]\nO[h,q,e] = softmax[k](S[h,q,k]) * V[h,k,e]",
        ATTENTION,
    ),
    "weighted keys": (f"{HEAD}, M[h,k]\n{LOGITS}\n{WEIGHTED}", ATTENTION),
    "entropy": (f"input Q[h,q,d], K[h,k,d]\n{LOGITS}\n{ENTROPY}", ATTENTION),
    "entropy, added mask": (
        f"input Q[h,q,d], K[h,k,d], B[h,k]\n{LOGITS} + B[h,k]\n{ENTROPY}",
        ATTENTION,
    ),
    "softmax": (mc.library.load("softmax"), MATRIX),
    "log_softmax_statistics": (mc.library.load("log_softmax_statistics"), MATRIX),
    "sparsemax": (mc.library.load("sparsemax"), MATRIX),
    "kl_divergence": (mc.library.load("kl_divergence"), LOSS),
}


class _Without(ast.NodeTransformer):
    """Leaves out what is chosen at special values, in loops or everywhere."""

    def __init__(self, in_loops: bool) -> None:
        self.in_loops = in_loops
        self.depth = 0
        self.count = 0

    def visit_For(self, node: ast.For) -> ast.AST:
        self.depth += 1
        found = self.generic_visit(node)
        self.depth -= 1
        return found

    def visit_Call(self, node: ast.Call) -> ast.AST:
        found = self.generic_visit(node)
        if ast.unparse(node.func) == "tl.maximum" and ast.unparse(node.args[0]) == "-4096.0":
            is_guard, rest = True, node.args[1]
        else:
            is_guard = ast.unparse(node.func) == "tl.where" and _is_special(node.args[0])
            rest = node.args[-1]
            if is_guard and isinstance(rest, ast.Constant):  # the other way round
                rest = node.args[1]
        if not is_guard or _is_state(rest) or (self.in_loops and not self.depth):
            return found
        self.count += 1
        return rest


def _is_state(value: ast.expr) -> bool:
    """Is it a maximum so far? That is -inf before the first block, on ordinary inputs too."""
    return isinstance(value, ast.Name) and bool(re.fullmatch(r"m(_[a-z]+)?(_\d+)?", value.id))


def _is_special(condition: ast.expr) -> bool:
    """Does it compare with 0 or infinity?"""
    constants = [n.value for n in ast.walk(condition) if isinstance(n, ast.Constant)]
    special = (c == "inf" or (isinstance(c, float) and c == 0.0) for c in constants)
    return isinstance(condition, ast.Compare) and any(special)


def without_guards(source: str, in_loops: bool) -> tuple[str, int]:
    """A file whose kernels have no guards, in loops or anywhere; and how many there were."""
    tree, count = ast.parse(source), 0
    for f in tree.body:
        if isinstance(f, ast.FunctionDef) and "triton.jit" in map(ast.unparse, f.decorator_list):
            leave_out = _Without(in_loops)
            leave_out.visit(f)
            count += leave_out.count
    return ast.unparse(ast.fix_missing_locations(tree)), count


def _load(source: str, folder: Path, name: str) -> Callable[..., Any]:
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    host: Callable[..., Any] = module.guarded
    return host


def _first(result: Any) -> torch.Tensor:
    found = result[0] if isinstance(result, tuple) else result
    assert isinstance(found, torch.Tensor)
    return found


def emitted(text: str, sizes: dict[str, int]) -> str:
    """A case's file, for this GPU's architecture where there is one."""
    kernel = mc.compile(text, name="guarded", backend="triton")
    known = {n: s for n, s in sizes.items() if n in kernel.declared.extent_of}
    return kernel.source(target="cuda:90", dtype="bf16", extents=known)


def measure(name: str, folder: Path) -> list[object]:
    """A row: milliseconds, and times as fast without guards in loops, and without any."""
    text, sizes = CASES[name]
    source = emitted(text, sizes)
    loops, everywhere = (without_guards(source, in_loops) for in_loops in (True, False))
    inputs = [
        torch.randn([sizes[d] for d in at.dims], device="cuda", dtype=torch.bfloat16)
        for at in mc.compile(text).declared.inputs.values()
    ]
    calls: dict[str, Callable[[], Any]] = {}
    for word, written in (("all", source), ("some", loops[0]), ("none", everywhere[0])):
        host = _load(written, folder, f"{word}_{list(CASES).index(name)}")
        calls[word] = lambda host=host: host(*inputs)  # type: ignore[misc]
    results = [_first(call()) for call in calls.values()]
    for other in results[1:]:
        assert errors.relative_error(other, results[0]) < 1e-2, name
    taken = {word: statistics.median(ms) for word, ms in gpu.times(calls, ROUNDS).items()}
    ratios = (taken["all"] / taken[word] for word in ("some", "none"))
    ms = f"{taken['all']:.3f}"
    return [name, ms, loops[1], everywhere[1] - loops[1], *(f"{r:.3f}" for r in ratios)]


def main() -> int:
    """Print the table."""
    if (reason := gpu.unavailable()) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in CASES]
    print(f"{today()}, {gpu.gpu_name()}; {listed(gpu.environment())}.\n")
    header = ["", "ms", "guards in loops", "after", "faster without those in loops", "without any"]
    print(table(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
