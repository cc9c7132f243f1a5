"""What must hold of a program after every rewrite, whatever the rewrite was.

Terms are built by constructors that check kinds, so an ill-typed term cannot exist. What a
rule can still get wrong is scope: a name that it opened and did not close, an index that no
equation gives, a definition that is gone. `verify` looks for that; and since what is printed
is a program of the language, the printed program must be the same one. Conditions that rules
made are read as if somebody had written them, to whom it might matter that a number is none.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate


def verify(program: Equations) -> Equations:
    """Check the scopes of a program, and that its text means the same.

    Returns:
        The program as it is read from its text.

    Raises:
        InternalError: with the equation that is wrong. What the checker says of the text is
            raised as it is.
    """
    missing = {o.name for o in program.declared.outputs} - set(program.by_name)
    if missing:
        raise InternalError(f"no equation is left for {', '.join(sorted(missing))}")
    verify_scopes(program)
    printed = translate(check(program.text()))
    ours, theirs = ((*p.given, *p.equations) for p in (program, printed))
    for old, new in zip(ours, theirs, strict=True):
        is_same = old.body is new.body or loosely(old.body) is loosely(new.body)
        if (old.name, old.indices) != (new.name, new.indices) or not is_same:
            raise InternalError(f"{old.body!r}\nis printed as\n{new.body!r}")
    return printed


def verify_scopes(program: Equations) -> None:
    """Raises InternalError where an equation has an index or reads a name that nothing gives."""
    for equation in program.equations:
        bound = {i.attr[0] for i in equation.indices}
        strange = equation.body.free - bound
        if strange:
            raise InternalError(f"{equation.name} varies with {', '.join(sorted(strange))}")
        for t in T.subterms(equation.body):
            if t.op == "ref" and t.attr not in program.by_name:
                raise InternalError(f"{equation.name} reads {t.attr}, which no equation defines")
            if t.op == "read":
                name, extents = t.attr
                if name not in program.declared.inputs:
                    raise InternalError(f"{equation.name} reads {name}, which is no input")
                if extents != program.declared.extents(name):
                    raise InternalError(f"{equation.name} reads {name} of other extents")
            if t.op == "stored" and t.attr.given and t.attr not in program.given:
                raise InternalError(f"{equation.name} reads another {t.attr.name} than is given")


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
