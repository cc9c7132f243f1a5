"""Every mistake in a call has one clear error: `tests/golden/calls.txt` has them whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.errors import MonocompError

WINDOW = library.load("sliding_window")
CAUSAL = library.load("causal")
GATHER = "input n[i]: int\nO[i] = X[n[i]] * 2"
REQUIRED = "param c: float\nO[i] = c * X[i]"
MASKED = "input M[k]: bool\ns = sum[k if M[k]](X[k])"
TUNED = "param seconds: float\nO[i] = A[i] * seconds"
Q, K, V = torch.ones(2, 3, 5, 4), torch.ones(2, 3, 6, 4), torch.ones(2, 3, 6, 4)
ARRAYS = [t.numpy() for t in (Q, K, V)]
META = [t.to("meta") for t in (Q, K, V)]
JAGGED = torch.nested.nested_tensor([K[0], K[1]], layout=torch.jagged)
LEAF, SCALAR = torch.ones(3, requires_grad=True), torch.tensor(2.0, requires_grad=True)

# A program, inputs by position, and values by name: the same error on every backend.
CALLS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "an input that is missing": (WINDOW, [Q, K], {}),
    "two that are": (WINDOW, [Q], {}),
    "an input too many": (WINDOW, [Q, K, V, V], {}),
    "an input given twice": (WINDOW, [Q, K, V], {"Q": Q}),
    "a misspelt parameter": (WINDOW, [Q, K, V], {"widnow": 3}),
    "a name in the other case": (WINDOW, [Q, K, V], {"v": V}),
    "a parameter that is no integer": (WINDOW, [Q, K, V], {"window": 2.5}),
    "a parameter that is a text": (WINDOW, [Q, K, V], {"window": "3"}),
    "a parameter that is a truth value": (WINDOW, [Q, K, V], {"window": True}),
    "a parameter past 64 bits": (WINDOW, [Q, K, V], {"window": 1 << 63}),
    "a parameter of thousands of digits": (WINDOW, [Q, K, V], {"window": 1 << 20000}),
    "a parameter that is missing": (REQUIRED, [torch.ones(3)], {}),
    "two sizes for an index": (CAUSAL, [Q, K[..., :3], V], {}),
    "two lengths": (CAUSAL, [Q, K, V[:, :, :5]], {}),
    "a dimension too few": (CAUSAL, [Q[0], K, V], {}),
    "a dtype that none loads": (CAUSAL, [Q.to(torch.complex64), K, V], {}),
    "integers for floats": (CAUSAL, [Q.long(), K, V], {}),
    "floats for integers": (GATHER, [], {"X": torch.ones(4), "n": torch.ones(3)}),
    "integers for truth values": (MASKED, [], {"M": torch.ones(3).long(), "X": torch.ones(3)}),
}


def of(text: str, backend: str = "torch", **options: Any) -> mc.Kernel:
    return mc.compile(text, backend=backend, **options)


# Mistakes that depend on the backend, or are made before a call.
OTHERS: dict[str, Callable[[], object]] = {
    "two devices": lambda: of(CAUSAL)(Q, META[1], V),
    "tensors on the CPU for Triton": lambda: of(CAUSAL, "triton")(Q, K, V),
    "tensors without elements": lambda: of(CAUSAL)(*META),
    "arrays for torch": lambda: of(CAUSAL)(*ARRAYS),
    "arrays for whichever fits": lambda: of(CAUSAL, "auto")(*ARRAYS),
    "arrays for Triton": lambda: of(CAUSAL, "triton")(*ARRAYS),
    "a list": lambda: of(CAUSAL)([[1.0]], *ARRAYS[1:]),
    "a sparse tensor": lambda: of(CAUSAL)(Q, K.to_sparse(), V),
    "a sparse tensor for Triton": lambda: of(CAUSAL, "triton")(Q, K.to_sparse(), V),
    "a nested tensor": lambda: of(CAUSAL)(Q, JAGGED, V),
    "gradients in NumPy": lambda: of(REQUIRED, "numpy")(X=LEAF, c=2.0),
    "of a parameter": lambda: of(REQUIRED, "numpy")(X=LEAF.detach(), c=SCALAR),
    "a name of the search": lambda: of(TUNED).tune(torch.ones(3), seconds=3.0),
    "a misspelt backend": lambda: of(CAUSAL, "tritn"),
    "an unknown backend": lambda: of(CAUSAL, "xyz"),
    "a backend in capitals": lambda: of(CAUSAL).source("Triton"),
    "a misspelt dtype": lambda: of(CAUSAL).source(dtype="bf61"),
    "an unknown index": lambda: of(CAUSAL).source(extents={"f": 3}),
    **{
        f"an extent of {size!r}": lambda size=size: of(CAUSAL).source(extents={"d": size})
        for size in (-1, 2.5, True, "7")
    },
    "a checked mode of Triton": lambda: of(CAUSAL, "triton", checked=True),
    "no inputs for Triton": lambda: of("index i < 5\nO[i] = i * 2").source(),
}


def told(call: Callable[[], object]) -> str:
    with pytest.raises(MonocompError) as caught:
        call()
    return str(caught.value.described())


def test_messages(golden: Callable[[str, str], None]) -> None:
    found = []
    for name, (text, inputs, named) in CALLS.items():
        kernels = [of(text, backend) for backend in ("numpy", "torch", "auto")]
        (message,) = {told(partial(kernel, *inputs, **named)) for kernel in kernels}
        found += [f"# {name}\n{message}\n"]
    found += [f"# {name}\n{told(call)}\n" for name, call in OTHERS.items()]
    golden("calls.txt", "\n".join(found))


def test_what_is_no_mistake() -> None:
    assert of(WINDOW)(Q, K, V, window=(1 << 63) - 1).shape == Q.shape
    assert of("index i < 5\nO[i] = i * 2")().tolist() == [0, 2, 4, 6, 8]
    found = of(CAUSAL, "numpy")(*ARRAYS)
    assert isinstance(found, np.ndarray) and found.dtype == np.float64
    with torch.no_grad():
        assert of(REQUIRED, "numpy")(X=LEAF, c=SCALAR).tolist() == [2.0] * 3
