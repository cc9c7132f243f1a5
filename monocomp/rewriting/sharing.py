"""Sharing: which definitions stay equations of their own, because copies of them would be many.

Rewrites see through a definition where its name is replaced by what it stands for. A program in
which every layer reads the one before it several times would double with each layer. Where
an equation grows past the limits here, definitions stay: those with aggregates that are read in
several ways; all with aggregates, if these are not enough; and any others, where an equation is
too large still. A kernel stores what they compute. What is larger than all tensors of the
program, such as the logits of an attention, is copied as long as that is possible at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from monocomp import terms as T
from monocomp.errors import LimitError
from monocomp.extents.nominal import nominal_sizes
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations

LIMIT = 100  # terms of an equation, each counted once
DEPTH_LIMIT = 7  # aggregates in one another
WEIGHT_LIMIT = 2048  # terms of an equation as it is written out
MAX_WEIGHT = 20_000  # beyond that, and with nothing to keep, a program is refused


def kept(program: Equations, all_that_fit: bool = False) -> frozenset[str]:
    """Return the names of the definitions that are not to be inlined.

    Args:
        program: equations.
        all_that_fit: are all kept in any case that may be stored?

    Raises:
        LimitError: an equation is too large, whatever is kept.
    """
    reads = _reads(program)
    fitting = frozenset(e.name for e in program.equations if e.name in reads) & _storable(program)
    folded = frozenset(n for n in fitting if program.by_name[n].body.depth > 0)
    often = frozenset(n for n in folded if len(reads[n]) > 1)
    choices = (frozenset[str](), often, folded)
    chosen = next((names for names in choices if is_small(program, names)), folded)
    chosen = fitting if all_that_fit else chosen
    return _bounded(program, chosen, fitting)


def _reads(program: Equations) -> dict[str, list[Term]]:
    """Return where definitions are read, by name: a term for each equation that reads them."""
    reads: dict[str, list[Term]] = {}
    for e in program.equations:
        if e.body.names:
            for t in T.subterms(e.body):
                if t.op == "ref":
                    reads.setdefault(t.attr, []).append(t)
    return reads


def _storable(program: Equations) -> frozenset[str]:
    """Return the equations that are no larger than the largest tensor that the program has
    anyway."""
    declared = program.declared
    sizes = nominal_sizes(declared, program.sizes)
    shapes = [[sizes[x] for x in declared.extents(name)] for name in declared.inputs]
    shapes += [[sizes[i.extent] for i in o.indices] for o in program.outputs]
    largest = max(map(math.prod, shapes))
    return frozenset(
        e.name
        for e in program.equations
        if e.body.kind == "float" and math.prod(sizes[i.extent] for i in e.indices) <= largest
    )


def is_small(program: Equations, names: frozenset[str] = frozenset()) -> bool:
    """True if the equations are within the limits with all other definitions written out."""
    known: dict[str, Equation] = {}
    for e in program.equations:
        known[e.name] = whole = _written_out(e, names, known)
        if len(T.subterms(whole.body)) > LIMIT or whole.body.depth > DEPTH_LIMIT:
            return False
    return True


def _written_out(e: Equation, names: frozenset[str], known: Mapping[str, Equation]) -> Equation:
    inline = T.mapping_refs(known.keys() - names, lambda t: T.element(known[t.attr], t.args))
    return replace(e, body=inline(e.body))


def _bounded(program: Equations, names: frozenset[str], fitting: frozenset[str]) -> frozenset[str]:
    """Return the names, and of those that fit what keeps equations within the limits."""
    known: dict[str, Equation] = {}
    for e in program.equations:
        whole = _written_out(e, names, known)
        if len(T.subterms(whole.body)) > LIMIT or whole.body.weight > WEIGHT_LIMIT:
            names |= e.body.names & fitting
            whole = _written_out(e, names, known)
        if whole.body.weight > MAX_WEIGHT:
            names |= e.body.names
            whole = _written_out(e, names, known)
        if whole.body.weight > MAX_WEIGHT:
            raise _too_large(
                e,
                program,
                f"{MAX_WEIGHT} terms when its definitions are written out",
                "what is asked whether it is a number is written out: definitions in it, too",
            )
        known[e.name] = whole
    return names


def _too_large(e: Equation, program: Equations, what: str, *notes: str) -> LimitError:
    return LimitError(
        f"'{e.name}' grows past {what}",
        text=program.origin.text,
        spans=program.origin.span(e.name),
        notes=notes,
        help="return some of the definitions that it reads, and read them as inputs of "
        "another program",
    )


def require_few(e: Equation, program: Equations, weight: int, limit: int) -> None:
    """Raise a LimitError if an equation has more terms, each counted once: that is what rules and
    kernels cost. They are counted where it has a larger weight, that of the term written out."""
    if e.body.weight > weight and len(T.subterms(e.body)) > limit:
        raise _too_large(e, program, f"{limit} different terms as it is derived")


def reading_stored(program: Equations, equation: Equation) -> Equations:
    """Return the program that reads what a definition computes where a kernel has stored it."""
    return program.map_refs([equation.name], lambda t: T.stored(equation, t.args))
