"""Summaries of plans: what one costs, in one line, and notes on what it stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from monocomp import terms as T
from monocomp.costs.cost import NOTHING, Formula, formula
from monocomp.costs.roles import WHOLE_LIMIT
from monocomp.display.notes import Note, Notes
from monocomp.extents.nominal import LONG
from monocomp.planning.plan import Plan
from monocomp.planning.report import tile_cost
from monocomp.terms import Term
from monocomp.terms.equations import Equation
from monocomp.tile import Loop, Tensor, walk


def summary(plan: Plan) -> str:
    """Return passes, order of growth, what is stored.

    "1 pass over k; operations grow as |k|*|q|*(|d| + |e|); stores nothing on the way"
    """
    cost = sum((tile_cost(k, {}) for k in plan.kernels), NOTHING)
    stored = ", ".join(f"{o.name}[{_names(o)}]" for o in _stored(plan)) or "nothing"
    return f"{cost.shown_passes}; {growth(formula(cost.flops))}; stores {stored} on the way"


def growth(flops: Formula) -> str:
    """Return the order in which operations grow: the monomials that no other one holds."""
    counts = [Counter(m) for m, _ in flops.terms]
    most = [c for c in counts if not any(c < other for other in counts)]
    if not most:
        return "no operation on floats"
    common = most[0].copy()
    for c in most:
        common &= c
    rest = [_product(c - common) for c in most]
    inner = " + ".join(rest)
    if not common:
        return f"operations grow as {inner or '1'}"
    outer = _product(common)
    return (
        f"operations grow as {outer}*({inner})" if len(rest) > 1 else f"operations grow as {outer}"
    )


def notes_on(plan: Plan) -> Notes:
    """Return notes on what may surprise: in the text, and in what the plan stores and repeats."""
    origin = plan.program.origin
    return Notes((*origin.notes, *stored_notes(plan), *repeated_notes(plan)), origin.text)


def stored_notes(plan: Plan) -> Iterator[Note]:
    """Yield results on the way with two long axes, as |q| * |k| weights, that no other tensor
    has."""
    declared = plan.program.declared
    shapes = [{declared.extent_of[i] for i in at.dims} for at in declared.inputs.values()]
    stored = _stored(plan)
    shapes += [{*o.dims} for k in plan.kernels for o in k.outputs if o not in stored]
    streamed = {a.extent for k in plan.kernels for a in k.axes.values() if a.role == "stream"}
    for kernel in plan.kernels:
        blocked = {a.extent for a in kernel.axes.values() if a.role in ("row", "stream")}
        long = {e for e in blocked & streamed if plan.sizes.get(e, LONG) > WHOLE_LIMIT}
        for o in (o for o in kernel.outputs if o in stored):
            pairs = combinations([dim for dim in o.dims if dim in long], 2)
            if all(any({*pair} <= shape for shape in shapes) for pair in pairs):
                continue
            size = "*".join(f"|{dim.lstrip('.')}|" for dim in o.dims)
            begins = (s.after for s in plan.decisions if s.after.startswith(f"{o.name}["))
            why = next(begins, "").partition(", which ")[2]
            yield Note(
                f"{o.name}[{_names(o)}] is stored, {size} numbers, and no input or output has all "
                f"its indices{f': it {why}' if why else ''}",
                plan.program.origin.span(o.name),
            )


def repeated_notes(plan: Plan) -> Iterator[Note]:
    """Yield a note for each loop that runs anew for each element along an extent that one index
    alone has."""
    declared = plan.program.declared
    for kernel in plan.kernels:
        loops = {s.axis.extent for s in walk(kernel.body) if isinstance(s, Loop)}
        rows = {a.extent for a in kernel.axes.values() if a.role in ("grid", "row")}
        for extent in sorted(loops & rows):
            names = [name for name, at in declared.extent_of.items() if at == extent]
            if len(names) > 1:
                continue
            (index,) = names
            prefixes = [
                e.name
                for e in plan.rewrites.start.equations
                if any(t.op == "fold_at" and t.args[0].attr == (index, extent) for t in _parts(e))
            ]
            outputs = [o.name for o in declared.outputs]
            more = [name for name in prefixes if name not in outputs]
            if prefixes:
                yield Note(
                    f"a prefix along '{index}' is computed anew for each '{index}', "
                    f"in |{index}| * |{index}| steps",
                    plan.program.origin.span(prefixes[0]),
                    f"what is returned is stored, in |{index}| steps: "
                    f"return {', '.join([*outputs, *more])}"
                    if more
                    else None,
                )


def _parts(equation: Equation) -> Iterator[Term]:
    return iter(T.subterms(equation.body))


def _stored(plan: Plan) -> list[Tensor]:
    """Return the outputs of kernels that are not results of the program."""
    views = plan.program.views
    results = {views.get(o.name, o.name) for o in plan.program.declared.outputs}
    return [o for k in plan.kernels for o in k.outputs if o.name not in results]


def _names(o: Tensor) -> str:
    return ",".join(dim.lstrip(".") for dim in o.dims)


def _product(monomial: Counter[str]) -> str:
    return "*".join(f"|{e.lstrip('.')}|" for e in sorted(monomial.elements()))
