"""Checks of scopes: a rewrite may leave names and indices that nothing gives.

Terms are built by constructors that check kinds, so an ill-typed term cannot exist. But a rule may
open a name and not close it, leave an index that no equation gives, or a definition that is gone.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.terms.equations import Equations


def verify_scopes(program: Equations) -> None:
    """Raise InternalError where an equation is missing, or holds a name that nothing gives."""
    missing = {o.name for o in program.declared.outputs} - set(program.by_name)
    if missing:
        raise InternalError(f"no equation is left for {', '.join(sorted(missing))}")
    for equation in program.equations:
        bound = {i.name for i in equation.indices}
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
