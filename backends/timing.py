"""Measure how long calls take."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def timed(compute: Callable[[], object], device: str = "cuda", calls: int = 1) -> float:
    """Return the seconds of a call, over some back to back; on a GPU without what came before
    them."""
    if device != "cuda":
        began = time.perf_counter()
        for _ in range(calls):
            compute()
        return (time.perf_counter() - began) / calls
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(calls):
        compute()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / 1e3 / calls
