"""Two checkouts on one GPU: the kernels of both, timed in turn, case by case.

    python -m benchmarks.compare ../before              all cases
    python -m benchmarks.compare ../before forward      some kinds of them
    python -m benchmarks.compare ../before --json F     and keep the numbers

Cases are those of `gpu_forward`, `gpu_variants`, `gpu_decode` and `gpu_floor` at their quick sizes,
with the schedules of first calls. The kind `gradients` times library programs forward and backward.
Each checkout runs in a process of its own, on the same random inputs; one waits while the other is
timed. Results are compared by their norms.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ROUNDS = 7
FLOOR = 0.97  # a ratio below is marked
KINDS = ("forward", "variants", "decode", "floor", "gradients")


# --- one checkout, in a process of its own ---------------------------------------------------


class Server:
    """Answers requests, lines of JSON: the list of cases, one prepared, the time of its kernels."""

    def __init__(self, rehearse: bool) -> None:
        from benchmarks import gpu

        self.gpu = gpu
        self.setting = gpu.Setting(quick=True, rehearse=rehearse)
        self.call: Callable[[], Any] = lambda: None
        self.count = 1

    def cases(self) -> list[list[str]]:
        """Their kinds and words."""
        from benchmarks import gpu_decode, gpu_forward, gpu_variants
        from tests.backends.library_cases import CASES

        found = [["forward", *c.words] for c in gpu_forward.cases(self.setting)]
        found += [["variants", *c.words] for c in gpu_variants.cases(self.setting)]
        found += [["decode", *c.words] for c in gpu_decode.cases(self.setting)]
        return found + [[kind, name] for kind in ("floor", "gradients") for name in CASES]

    def inputs(self, kind: str, words: Sequence[str]) -> tuple[str, list[Any], dict[str, Any]]:
        """The program of a case, its inputs and its parameters."""
        import torch

        from benchmarks import gpu_decode, gpu_floor, gpu_forward, gpu_variants, variants

        torch.manual_seed(7)
        device = self.setting.device

        def named(cases: Sequence[Any]) -> Any:
            return next(c for c in cases if list(c.words) == list(words))

        if kind == "forward":
            case = named(gpu_forward.cases(self.setting))
            return case.program, list(case.inputs(device)), {}
        if kind == "variants":
            case = named(gpu_variants.cases(self.setting))
            extras = case.variant.inputs(case.shape, device)
            tensors = [*variants.tensors(case.shape, device), *extras.values()]
            return case.variant.program, tensors, dict(case.variant.params(case.shape))
        if kind == "decode":
            case = named(gpu_decode.cases(self.setting))

            def random(*shape: int) -> Any:
                return torch.randn(shape, device=device, dtype=self.gpu.DTYPE)

            b, h, g, n, d, r = (
                *(case.batch, case.heads, case.groups, case.length, case.head, case.rotated),
            )
            if case.kind == "latent":
                latent = random(b, h, 1, d), random(b, h, 1, r), random(b, n, d), random(b, n, r)
                return gpu_decode.LATENT, list(latent), {}
            return "gqa", [random(b, h, 1, d), random(b, g, n, d), random(b, g, n, d)], {}
        (name,) = words
        full = gpu_floor.FULL.get(name, gpu_floor.Full())
        return name, list(gpu_floor.full_inputs(name, self.setting).values()), dict(full.params)

    def prepare(self, kind: str, *words: str) -> dict[str, Any]:
        """Compile and run a case; what came out, and the schedules."""
        import torch

        self.call = lambda: None
        gc.collect()
        on_gpu = self.setting.device == "cuda"
        if on_gpu:
            torch.cuda.empty_cache()
        program, tensors, params = self.inputs(kind, words)
        kernel = self.gpu.kernel(program)

        def forward() -> Any:
            result = kernel(*tensors, **params)
            return result if isinstance(result, tuple) else (result,)

        def backward() -> Any:
            values = [x for x in forward() if x.requires_grad]
            return torch.autograd.grad(values, leaves, cotangents, allow_unused=True)

        self.call = forward
        if kind == "gradients":
            leaves = [x.requires_grad_() for x in tensors if x.is_floating_point()]
            cotangents = [torch.randn_like(x) for x in forward() if x.requires_grad]
            self.call = backward
        outputs = [x for x in self.call() if x is not None]
        norms = [float(x.detach().double().norm()) for x in outputs]
        if on_gpu:
            once = self.gpu.burst(self.call, 2)
            self.count = max(2, min(40, int(self.gpu.BURST_MS / max(1e-3, once))))
        return {"norms": norms, "schedule": self.gpu.schedule(program, *tensors, **params)}

    def time(self) -> float:
        """Milliseconds a call."""
        if self.setting.device != "cuda":
            return float("nan")
        return float(self.gpu.burst(self.call, self.count))

    def serve(self, requests: Iterator[str], answers: Any) -> None:
        """Until there are no more requests."""
        for line in requests:
            verb, *args = json.loads(line)
            try:
                answer = getattr(self, verb)(*args)
            except Exception as fault:  # a case that one of the checkouts cannot run
                answer = {"fault": f"{type(fault).__name__}: {fault}"[:200]}
            print(json.dumps(answer), file=answers, flush=True)


def _serve(root: str, rehearse: bool) -> None:
    sys.path[:] = [root, *(p for p in sys.path if Path(p or ".").resolve() != HERE.parent)]
    os.environ["MONOCOMP_TUNE"] = "0"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    Server(rehearse).serve(iter(sys.stdin), answers)


# --- both ------------------------------------------------------------------------------------


class Checkout:
    """The process of one checkout."""

    def __init__(self, root: Path, rehearse: bool) -> None:
        command = [sys.executable, str(HERE), "--serve", str(root)]
        self.process = subprocess.Popen(
            command + ["--rehearse"] * rehearse,
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # it ends as there are no more requests

    def ask(self, *request: str) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        """What came of it."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def compare(
    before: Path, after: Path, kinds: Sequence[str], only: frozenset[str], rehearse: bool
) -> Iterator[dict[str, Any]]:
    """The milliseconds of every case in both checkouts, and the ratio: above 1 it got faster."""
    with Checkout(before, rehearse) as first, Checkout(after, rehearse) as second:
        yield from _compared([first, second], kinds, only)


def _compared(
    both: Sequence[Checkout], kinds: Sequence[str], only: frozenset[str]
) -> Iterator[dict[str, Any]]:
    for checkout in both:
        checkout.ask("cases")
    listed = [checkout.answer() for checkout in both]
    for answer in listed:
        if "fault" in answer:
            raise RuntimeError(f"a checkout lists no cases: {answer['fault']}")
    ours, theirs = listed
    for case in ours:
        if case not in theirs or case[0] not in kinds or (only and only.isdisjoint(case[1:])):
            continue
        for checkout in both:
            checkout.ask("prepare", *case)
        made = [checkout.answer() for checkout in both]
        row: dict[str, Any] = {"case": " ".join(case), "made": made}
        if not any("fault" in m for m in made):
            times: list[list[float]] = [[], []]
            for turn in range(ROUNDS):
                for n in (0, 1) if turn % 2 else (1, 0):
                    both[n].ask("time")
                    times[n].append(both[n].answer())
            row["milliseconds"] = [statistics.median(t) for t in times]
            row["ratio"] = row["milliseconds"][0] / row["milliseconds"][1]
            row["difference"] = max(
                abs(x - y) / max(abs(x), 1e-30)
                for x, y in zip(*(m["norms"] for m in made), strict=True)
            )
        yield row


def _line(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return f"{row['case']:36} " + " | ".join(m.get("fault", "runs") for m in row["made"])
    x, y = row["milliseconds"]
    before, after = (m["schedule"] for m in row["made"])
    notes = ["<" * (row["ratio"] < FLOOR), f"{before} -> {after}" * (before != after)]
    if not row["difference"] < 1e-2:
        notes.append(f"results differ by {row['difference']:.0e}")
    return f"{row['case']:36} {x:9.4f} {y:9.4f} {row['ratio']:6.3f}  {' '.join(notes)}".rstrip()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, help="the other checkout's folder")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--only", nargs="*", default=(), metavar="WORD", help="cases with one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve(str(given.before), given.rehearse)
        return 0
    rows = []
    print(f"{'':36} {'before':>9} {'after':>9} {'ratio':>6}  ms, and before / after")
    chosen = given.kinds or KINDS, frozenset(given.only), given.rehearse
    for row in compare(given.before.resolve(), HERE.parents[1], *chosen):
        rows.append(row)
        print(_line(row), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(rows))
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if not ratios:
        print("error: nothing could be compared", file=sys.stderr)
        return 1
    mean = statistics.geometric_mean(ratios) if all(r > 0 for r in ratios) else float("nan")
    print(f"{len(ratios)} cases: geometric mean {mean:.3f}, least {min(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
