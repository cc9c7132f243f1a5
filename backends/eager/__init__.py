"""A program as a plain torch function, for the self-check of an emitted file.

The function is written from the equations as the user gave them, before any rewrite, and
shares nothing with the kernel. In an equation every index, free or bound, has an axis of its
own, along which a tensor holds its values; so reads look as they do in the language
(`Q[b, h, q, d]`), arithmetic broadcasts, and a fold reduces its axes. There is one assignment
for each fold and definition; an expression too long for a line gets one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monocomp.backends.eager import helpers
from monocomp.backends.eager.code import default_text
from monocomp.backends.eager.scope import Scope
from monocomp.backends.eager.statements import Body
from monocomp.backends.line_breaks import fill, fit, tuple_text
from monocomp.declarations.records import Output
from monocomp.errors import UnsupportedError
from monocomp.terms.equations import Equation, Equations, in_order

__all__ = ["RESERVED", "reference_lines"]

RESERVED = frozenset({"reference", "given", "dtype", "device", *helpers.NAMES})


def reference_lines(
    equations: Equations, identifiers: Mapping[str, str], *, contracts: bool = False
) -> list[str]:
    """Return the source of `reference(<inputs>, *, <params>, dtype=torch.float64)`.

    The function computes all in `dtype` and returns a tuple in the order of the outputs.
    Functions that it needs come before it, and where inputs are given with a definition
    `given(...)`, which returns what it says.

    Args:
        equations: the program, not rewritten.
        identifiers: a Python identifier for each name of the program: inputs, parameters,
            definitions, indices. All differ, and none is in RESERVED.
        contracts: write sums of products as `torch.einsum`, as one would by hand: faster, and
            further from the text.
    """
    needed: dict[tuple[str, str], None] = {}
    out = []
    if equations.given:
        outputs = tuple(Output(e.name) for e in equations.given)
        declared = replace(equations.declared, outputs=outputs)
        every = in_order((*equations.given, *equations.equations))
        alone = replace(equations, declared=declared, equations=every, given=())
        what = "The inputs that are given with a definition, as it says."
        out += [*_function("given", what, alone, identifiers, needed, contracts), "", ""]
    what = "The program, evaluated as it is written."
    out += _function("reference", what, equations, identifiers, needed, contracts)
    texts = (line for n, text in needed for line in (*helpers.source(n, text), "", ""))
    return [*texts, *out]


def _function(
    name: str,
    what: str,
    equations: Equations,
    identifiers: Mapping[str, str],
    needed: dict[tuple[str, str], None],
    contracts: bool,
) -> list[str]:
    """Return the source of one function; `needed` are the helpers that are."""
    scope = Scope(equations, identifiers, contracts=contracts)
    blocks = [Body(scope, equation).lines() for equation in scope.reached]
    results = [identifiers[o.name] for o in equations.declared.outputs]
    blocks.append(fit("return ", tuple_text(results), "", 1))
    sizes = _size_lines(scope)
    needed |= dict.fromkeys(scope.helpers.items())
    out = [*_signature(name, scope), f'    """{what}"""']
    out += [*_casts(scope), *sizes]
    for block in (scope.monoid_lines, *blocks):
        out += ["", *block] if block else []
    return out


def _signature(function: str, scope: Scope) -> list[str]:
    args = [scope.identifiers[name] for name in scope.program.inputs] + ["*"]
    for param in scope.program.params.values():
        default = "" if param.default is None else f"={default_text(param.default)}"
        args.append(scope.identifiers[param.name] + default)
    return fill(f"def {function}(", [*args, "dtype=torch.float64"], "):", 0)


def _casts(scope: Scope) -> list[str]:
    """Return the device, where it is needed, and the inputs in the kinds that the program gives
    them."""
    calls = {"float": "to(dtype)", "int": "long()", "bool": "bool()"}
    inputs = {scope.identifiers[i.name]: i.kind for i in scope.program.inputs.values()}
    out = []
    if scope.uses_device:
        first = next(iter(inputs), None)
        out.append(f"    {scope.device} = " + (f"{first}.device" if first else '"cpu"'))
    return [*out, *(f"    {name} = {name}.{calls[kind]}" for name, kind in inputs.items())]


def _size_lines(scope: Scope) -> list[str]:
    """Return the assignments of the extents that are used: from shapes, then those declared."""
    program = scope.program
    left = dict(scope.sizes)
    out = []
    for declared in program.inputs.values():
        name = scope.identifiers[declared.name]
        extents = program.extents(declared.name)
        if len(extents) > 1 and len(set(extents)) == len(extents) and left.keys() >= {*extents}:
            out.append(f"    {', '.join(map(left.pop, extents))} = {name}.shape")
            continue
        for axis, extent in enumerate(extents):
            if extent in left:
                out.append(f"    {left.pop(extent)} = {name}.shape[{axis}]")
    for extent, target in left.items():
        bound = program.bounds[extent]
        body = Body(scope, Equation(extent, (), bound))
        code = body.code(bound)
        if not code.number:
            raise UnsupportedError(f"the extent of '{extent}' is not a number")
        out += [*body.statements, *fit(f"{target} = ", code.text, "", 1)]
    return out
