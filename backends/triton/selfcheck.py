"""The self-check of an emitted file: run as a script, it compares the kernel with the program.

Inputs are random and small, with odd sizes but for those that a file is for. The kernel's error
against `reference`, the program evaluated as it is written in float64, may be at most twice that of
`reference` in the inputs' own precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from monocomp import terms as T
from monocomp.backends import eager
from monocomp.backends.eager.code import default_text
from monocomp.backends.line_breaks import fill, tuple_text
from monocomp.checking.sizes import Sizes
from monocomp.declarations.dtypes import NARROW
from monocomp.declarations.records import Input, free_extents
from monocomp.errors import InternalError
from monocomp.extents.nominal import without_elements
from monocomp.terms.equations import Equations

# Names of the file that the identifiers of a program and its host function must leave alone; the
# function is passed to `main`, where names are its own.
RESERVED = eager.RESERVED | {"main", "error", "differentiated"}

_LARGEST_PARAM = 9  # so that a window, say, is smaller than the inputs
_TINY, _SMALL, _LARGE = (3, 5, 7, 9, 11), (17, 19, 21, 23, 25), (133, 139, 37, 41, 27)
_PAIRED = _LARGE[2:]  # for indices that one fold binds: the reference takes all combinations
_MOST = 1 << 27  # elements that the reference may tabulate at a time

_ERROR = '''
def error(result, exact):
    """The largest difference; equal infinities differ by 0."""
    result, exact = result.double(), exact.double()
    if result.shape != exact.shape:
        return torch.inf
    same = (result == exact) | (result.isnan() & exact.isnan())
    return torch.where(same, 0.0, (result - exact).abs()).max().item()
'''

_DIFFERENTIATED = '''
def differentiated(function, inputs, **options):
    """The results of a function, and the gradients of their sum with weights."""
    leaves = [x.detach().requires_grad_(n in PLACES) for n, x in enumerate(inputs)]
    results = function(*leaves, **options)
    results = results if isinstance(results, tuple) else (results,)
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randint(-8, 9, x.shape, generator=generator) / 8 for x in results]
    pairs = [(x, w.to(x)) for x, w in zip(results, weights) if x.requires_grad]
    found = torch.autograd.grad(
        [x for x, _ in pairs],
        [x for x in leaves if x.requires_grad],
        [w for _, w in pairs],
        allow_unused=True,
        materialize_grads=True,
    )
    return (*(x.detach() for x in results), *found)
'''

_HEAD = '''
def main(kernel):
    """Compare with the program evaluated as it is written, on small random inputs."""
    import os
    import sys
'''

DEVICES = """
    if os.environ.get("TRITON_INTERPRET") == "1":
        device, dtypes = "cpu", (torch.float32,)
    elif torch.cuda.is_available():
        device, dtypes = "cuda", (torch.float32, torch.bfloat16)
    else:
        print("the self-check needs a GPU, or TRITON_INTERPRET=1", file=sys.stderr)
        return 2
"""

_NARROW_DEVICES = """
    if os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available():
        print("the self-check needs a GPU: products are of bfloat16", file=sys.stderr)
        return 2
    device, dtypes = "cuda", (torch.float32, torch.bfloat16)
"""

_RESULTS = """
        results = {results}
        exact = reference(*inputs, **params)
        naive = reference(*inputs, **params, dtype=dtype)
        for name, result, x, y in zip(names, results, exact, naive):
"""

_GRADIENTS = """
        results = differentiated(kernel, inputs, **params)
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        exact = differentiated(reference, wide, **params)
        naive = differentiated(reference, inputs, **params, dtype=dtype)
        for name, result, x, y in zip(names, results, exact, naive):
            # Of what is masked out autograd may have NaN, where 0 is right.
            masked = x.isnan() | y.isnan()
            result, x, y = (t.masked_fill(masked, 0) for t in (result, x, y))
"""

_LOOP = """
    good = True
    for dtype in dtypes:
        inputs = [x.to(device, dtype if x.dtype == torch.float else None) for x in made]
{compared}
            scale = x.double().abs().nan_to_num(0.0, 0.0).max().item()
            floor = max({least}, torch.finfo(dtype).eps / 2) * scale
            found, usual = error(result, x), error(y, x)
            print(f"{{name}}, {{dtype}}: error {{found:.1e}}, without the kernel {{usual:.1e}}")
            unknown = usual != usual  # overflows in this precision
            good = good and (unknown or found <= 2 * usual + floor)
    print("ok" if good else "the kernel's error is too large")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main({host}))
"""


def main_lines(
    equations: Equations,
    identifiers: Mapping[str, str],
    host: str,
    devices: str = DEVICES,
    sizes: Sizes | None = None,
    gradients: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the source of `main` and of the call to it.

    `main` calls the host function with the inputs by position and the parameters by keyword,
    and expects a tensor, or a tuple of them if there are several outputs. Its exit status is
    0 if the kernel is right, 1 if it is wrong, 2 if it cannot run here.

    Args:
        equations: the program, not rewritten.
        identifiers: as for `reference_lines`.
        host: the name of the host function.
        devices: where it runs, and in which dtypes.
        sizes: those of the inputs, as `sizes_for` gives them.
        gradients: the names of those that are compared as well, by input, in the order of these.
    """
    params = _params(equations)
    sizes = sizes or _sizes(Sizes(equations, {}, params), {}, False)
    if host in RESERVED:
        raise InternalError(f"the host function's name is reserved: {host}")
    order = list(equations.declared.inputs)
    several = len(equations.declared.outputs) > 1
    call = "kernel(*inputs, **params)"
    outputs = [f'"{o.name}"' for o in equations.declared.outputs]
    outputs += [f'"{name}"' for name in (gradients or {}).values()]
    keywords = [f'"{identifiers[name]}": {default_text(value)}' for name, value in params.items()]
    out = [*_ERROR.strip().splitlines(), "", ""]
    if gradients:
        positions = tuple_text([str(order.index(n)) for n in gradients])
        out += [*_DIFFERENTIATED.replace("PLACES", positions).strip().splitlines(), "", ""]
    deciding = [equations.declared.inputs[n] for n in equations.declared.deciding]
    if devices == DEVICES and deciding and all(i.dtype in NARROW for i in deciding):
        devices = _NARROW_DEVICES  # Triton's interpreter does not compute with bfloat16
    out += _HEAD.strip().splitlines()
    out += [*devices.rstrip().splitlines(), "    torch.manual_seed(0)"]
    out += _made_lines(equations, sizes)
    out += fill("params = {", keywords, "}", 1)
    if equations.given:
        positions = tuple_text([str(order.index(e.name)) for e in equations.given])
        out += [
            f"    for position, values in zip({positions}, given(*made, **params)):",
            "        made[position] = values.to(made[position].dtype)",
        ]
    out += fill("names = (", outputs, ")" if len(outputs) > 1 else ",)", 1)
    compared = (
        _GRADIENTS if gradients else _RESULTS.format(results=call if several else f"({call},)")
    )
    # A saved logarithm of 100 is known to some 1e-5 in float32, and so is the weight that it gives.
    least = "1e-5" if gradients else "1e-6"
    loop = _LOOP.format(host=host, compared=compared.strip("\n"), least=least)
    out += loop.strip("\n").splitlines()
    return out


def _made_lines(equations: Equations, sizes: Sizes) -> list[str]:
    """Return the statement that makes all inputs, one a line."""
    lines = []
    for declared, made in _inputs(equations, sizes):
        dims = ",".join(d.lstrip(".") for d in declared.dims)
        if declared.dtype in NARROW:
            made += f".to(torch.{declared.dtype})"
        lines.append(f"        {made},  # {declared.name}[{dims}]")
    return ["    made = [", *lines, "    ]"] if lines else ["    made = []"]


def _params(equations: Equations) -> dict[str, Any]:
    """Return the values of the parameters: the defaults, ints made small."""
    values: dict[str, Any] = {}
    for param in equations.declared.params.values():
        if param.kind == "int":
            values[param.name] = 3 if param.default is None else min(param.default, _LARGEST_PARAM)
        else:
            values[param.name] = 0.5 if param.default is None else param.default
    return values


def sizes_for(equations: Equations, known: Mapping[str, int]) -> Sizes | None:
    """Return sizes for the inputs of a file that is for some known ones; None if the reference
    would take too much memory, or needs other parameters."""
    start = Sizes(equations, {}, _params(equations))
    usual = _sizes(start, {}, False)
    if not known:
        return usual
    most = max(_MOST, _tabulated(equations, usual.extents))
    for is_tiny in (False, True):
        sizes = _sizes(start, known, is_tiny)
        extents = sizes.extents
        is_right = all(extents[e] == n for e, n in known.items() if e in extents)
        if is_right and _tabulated(equations, extents) <= most:
            return sizes
    return None


def _tabulated(equations: Equations, sizes: Mapping[str, int]) -> int:
    """Count the elements of the largest part of a formula."""
    terms = list(T.subterms(*(e.body for e in (*equations.given, *equations.equations))))
    extents = dict(t.attr for t in terms if t.op == "index")
    return max(math.prod(sizes[extents[name]] for name in t.free) for t in terms)


def _inputs(equations: Equations, sizes: Sizes) -> Iterator[tuple[Input, str]]:
    """Yield each input with an expression for random elements."""
    for declared in equations.declared.inputs.values():
        shape = ", ".join(str(sizes.extents[dim]) for dim in declared.dims)
        whole = f"({shape},)" if len(declared.dims) == 1 else f"({shape})"
        if declared.kind == "bool":
            made = f"torch.rand({whole}) < 0.5"
        elif declared.kind == "int":
            made = f"torch.randint(0, {sizes.values(declared.name)[1] + 1}, {whole})"
        else:
            made = f"torch.randn({shape if declared.dims else whole})"
        yield declared, made


def _sizes(start: Sizes, known: Mapping[str, int], is_tiny: bool) -> Sizes:
    """Return an odd size for each extent that is not known, where computed subscripts allow it."""
    equations, free = start.program, start.fit
    any_fit = not free or not start.subscripts
    declared = equations.declared
    given = {e: known[e] for e in free_extents(declared) if e in known}
    terms = T.subterms(*(e.body for e in (*equations.given, *equations.equations)))
    bound = [t.attr.extents for t in terms if t.op == "fold"]
    paired = {name for extents in bound if len(extents) > 1 for name in extents}
    empty = without_elements(equations)
    for name in free_extents(declared):
        if name in empty:
            given[name] = 0
        if name in given:
            continue
        sizes = _TINY if is_tiny else _sizes_like(equations, name)
        sizes = _PAIRED if name in paired and sizes == _LARGE else sizes
        size = next((n for n in sizes if n not in given.values()), sizes[0])
        if any_fit or start.at({**given, name: size}).fit:
            given[name] = size
    if not free:  # a computed subscript of unknown range, and a dimension that only it reads
        made_up = {root for root in declared.extent_of.values() if root.startswith(".")}
        given |= dict.fromkeys(sorted(made_up - declared.bounds.keys()), max(_LARGE))
    return start.at(given)


def _sizes_like(equations: Equations, extent: str) -> tuple[int, ...]:
    """Return sizes to choose from: the last two dimensions of a tensor are longer than the
    others."""
    least = _LARGE
    for name, declared in equations.declared.inputs.items():
        rank = len(declared.dims)
        for axis, other in enumerate(equations.declared.extents(name)):
            if other == extent:
                sizes = _LARGE if rank < 3 or axis == rank - 2 else _TINY
                sizes = _SMALL if rank > 2 and axis == rank - 1 else sizes
                least = min(least, sizes)
    return least
