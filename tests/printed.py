"""Printed programs: what is printed is a program of the language, and must be the same one."""

from __future__ import annotations

from dataclasses import replace

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate


def verify(program: Equations) -> Equations:
    """Check that the text of a program is one, and means the same.

    Returns:
        The program as it is read from its text.

    Raises:
        InternalError: with the equation that is wrong. What the checker says of the text is
            raised as it is.
    """
    printed = translate(check(program.text()))
    ours, theirs = ((*p.given, *p.equations) for p in (program, printed))
    for old, new in zip(ours, theirs, strict=True):
        is_same = old.body is new.body or loosely(old.body) is loosely(new.body)
        if (old.name, old.indices) != (new.name, new.indices) or not is_same:
            raise InternalError(f"{old.body!r}\nis printed as\n{new.body!r}")
    return printed


def loosely(t: Term) -> Term:
    """A term whose made-up extents are called as a text calls them."""
    memo: dict[Term, Term] = {}

    def visit(t: Term) -> Term:
        if t not in memo:
            new = T.map_children(t, visit)
            if new.op == "read":
                extents = (e.lstrip(".") for e in new.attr.extents)
                new = T.read(T.Tensor(new.attr.name, tuple(extents)), new.args, new.kind)
            if new.op == "stored":
                new = T.stored(replace(new.attr, body=visit(new.attr.body)), new.args)
            memo[t] = new
        return memo[t]

    return visit(t)
