"""The laws that every bracketing rests on, proved for each monoid before it is used.

Each law is a claim (`monoid_laws`; for rewrite rules `rule_laws`), which is proved or refuted
(`prover`). What is proved is remembered (`machine.cache`) under all that it says, so that later
runs need no sympy.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from monocomp import terms as T
from monocomp.errors import InternalError, MonoidLawError, Span
from monocomp.machine.cache import JsonStore
from monocomp.proving import monoid_laws as L
from monocomp.proving.identities import Claim
from monocomp.proving.prover import (
    TIME_LIMIT,
    Law,
    Plan,
    Prover,
    is_commutative,
    is_proved,
    missing,
    survives,
)
from monocomp.proving.rule_laws import EVERYWHERE, RULE_LAWS
from monocomp.terms import UserMonoid
from monocomp.terms.algebra import SE_PAIR
from monocomp.terms.domain import MASKS_ARE_ADDED, Assumptions, domain
from monocomp.terms.equations import Equations

PROVER_VERSION = 10  # part of what results are remembered under; raise it with every change


def prove_monoid(
    m: UserMonoid, nonnegative: Iterable[str] = (), limit: float = TIME_LIMIT
) -> tuple[Law, ...]:
    """Prove that a monoid is closed and associative with a unit; and whether it is commutative.

    Args:
        m: the monoid.
        nonnegative: fields that are >= 0 in every element; used if the laws need it.
        limit: seconds for each law.
    """
    return Prover(limit).first_plan(L.plans(m, nonnegative))


_STORE = JsonStore("proofs")
_IN_MEMORY: dict[str, tuple[Law, ...]] = {}  # of this process


@cache
def _sympy_release() -> str:
    """Return the text of sympy's release number, without the import of sympy."""
    spec = find_spec("sympy")
    places = spec.submodule_search_locations if spec else None
    return "".join(Path(place, "release.py").read_text("utf-8") for place in places or ())


def _key(content: object) -> str:
    """Return what results are remembered under: everything that they depend on."""
    text = repr((PROVER_VERSION, _sympy_release(), content))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def certify(
    subject: str | UserMonoid, nonnegative: Iterable[str] = (), fresh: bool = False
) -> tuple[Law, ...]:
    """Return the laws of a monoid or a rule, remembered from an earlier run if they were proved.

    Args:
        subject: a user's monoid, or the name of a reduction or of what a rule claims.
        nonnegative: as in `prove_monoid`.
        fresh: prove anew.
    """
    if isinstance(subject, str):
        if subject in L.RESTS_ON:
            return tuple(law for part in L.RESTS_ON[subject] for law in certify(part, (), fresh))
        if subject in RULE_LAWS:
            law = RULE_LAWS[subject]
            return certify_claims(subject, law.texts, law.claims, fresh)
        if subject not in L.BUILT_IN:
            raise InternalError(f"there is no law '{subject}'")
        subject = L.BUILT_IN[subject]
    fields, parts = tuple(sorted(nonnegative)), (*subject.unit, *subject.combine)
    content = subject.name, subject.fields, tuple(t.key[2] for t in parts), fields
    return _certified(content, partial(L.plans, subject, fields), fresh)


def certify_claims(
    name: str, content: object, claims: Callable[[], Iterable[Claim]], fresh: bool = False
) -> tuple[Law, ...]:
    """Return the laws that claims are, remembered under their content."""
    return _certified((name, content), lambda: [[(name, [c]) for c in claims()]], fresh)


def _certified(
    content: object, plans: Callable[[], Iterable[Plan]], fresh: bool
) -> tuple[Law, ...]:
    """Prove plans, unless their content is remembered as proved."""
    key = _key(content)
    if fresh or key not in _IN_MEMORY:
        entry = None if fresh else _STORE.get(key)
        if entry is None:
            laws = Prover(TIME_LIMIT).first_plan(plans())
            if not is_proved(laws):
                return laws
            _STORE.put(key, {"laws": [law.to_json() for law in laws]})
        else:
            laws = tuple(map(Law.from_json, entry["laws"]))
        _IN_MEMORY[key] = laws
    return _IN_MEMORY[key]


# --- programs -------------------------------------------------------------------------

# For each law: what a monoid lacks without it, and why it is needed.
_LAWS = {
    "closed": (
        "has combinations that are not finite",
        "Partial results are combined again, so all combinations must be finite.",
    ),
    "left unit": (
        "has a unit that is not neutral on the left",
        "A fold starts from the unit, and a tile without elements is the unit.",
    ),
    "right unit": (
        "has a unit that is not neutral on the right",
        "A tile without elements is the unit, wherever it stands.",
    ),
    "associative": (
        "is not associative",
        "A fused kernel folds tile by tile and combines the parts, so it needs "
        "(x . y) . z = x . (y . z).",
    ),
}


def require(
    monoid: UserMonoid,
    nonnegative: Iterable[str] = (),
    *,
    text: str | None = None,
    span: Span | None = None,
) -> tuple[Law, ...]:
    """Return the laws of a user's monoid; raise an error unless they are proved.

    Args:
        monoid: what the user declared.
        nonnegative: its fields that are >= 0 in every element, such as a count; used if the laws
            need it.
        text: the program.
        span: where the monoid is declared.
    """
    laws = certify(monoid, nonnegative)
    failed = missing(laws)
    if failed is None:
        return laws
    fault, reason = _LAWS[failed.short]
    if failed.counterexample is None:
        fault = f"is not known to have its law '{failed.short}'"
    raise MonoidLawError(
        f"monoid '{monoid.name}' {fault}",
        text=text,
        spans=() if span is None else span,
        notes=[f"law: {failed.statement}", _outcome(failed), reason],
        help=_advice(monoid, failed),
    )


def _outcome(failed: Law) -> str:
    """Say why a law is not proved."""
    if failed.counterexample is None:
        return f"neither proved nor refuted within {TIME_LIMIT:.0f} s"
    return f"counterexample: {failed.counterexample}"


def _advice(m: UserMonoid, failed: Law) -> str:
    """Return what to write instead."""
    if failed.counterexample is None:
        return "write combine with + - *, exp, maximum and where; these the prover decides"
    if failed.short in ("left unit", "right unit"):
        unit = _neutral_unit(m)
        if unit is not None:
            return f"unit ({', '.join(map(T.show, unit))}) is neutral"
    laws = prove_monoid(m, m.fields, limit=1.0)
    if is_proved(laws):
        fields = str(laws[0].statement).rpartition(", for ")[2]
        name = fields.split(" ")[0]
        return f"the laws hold for {fields}; make that visible where you fold: abs({name})"
    if "undefined" in failed.counterexample:
        return "guard the place: where(n + n' == 0, 0, a / (n + n')), where(m == -inf, 0, m)"
    if failed.short == "associative":
        return "carry what a later step needs in more fields; for a difference, subtract a sum"
    return "give a unit that leaves every element as it is"


def _neutral_unit(m: UserMonoid) -> tuple[T.Term, ...] | None:
    """Return a unit that no sample contradicts, of the usual numbers."""
    if len(m.fields) > 3:
        return None
    for unit in itertools.product((T.ZERO, T.ONE, T.NEG_INF, T.INF), repeat=len(m.fields)):
        carrier = L.Carrier(replace(m, unit=unit))
        if all(survives(L.neutral(carrier, left)) for left in (True, False)):
            return unit
    return None


def _assume_definitions(program: Equations) -> Assumptions:
    """Return the domains of what equations define, each of which reads earlier ones only."""
    assumed = MASKS_ARE_ADDED
    for e in program.equations:
        names = (*assumed.names, (e.name, domain(e.body, assumed)))
        assumed = replace(assumed, names=names)
    return assumed


def _folded(equations: Equations) -> dict[str | UserMonoid, tuple[str, ...]]:
    """Return the monoids of a program's folds: the built-in ones by name and then those of users.
    Each has its fields that are visibly >= 0 in every element that is folded."""
    assumed = _assume_definitions(equations)
    names: set[str] = set()
    monoids: dict[str | UserMonoid, tuple[str, ...]] = {}
    for t in T.subterms(*(e.body for e in equations.equations)):
        if t.op not in ("fold", "fold_at"):
            continue
        monoid = t.attr.monoid
        if isinstance(monoid, str) or monoid == SE_PAIR:
            names.add(monoid if isinstance(monoid, str) else monoid.name)
        else:
            elements = dict(zip(monoid.fields, T.open_fold(t)[1][1:], strict=True))
            fields = monoids.get(monoid, monoid.fields)
            monoids[monoid] = tuple(f for f in fields if domain(elements[f], assumed).lo >= 0)
    parts = (part for name in sorted(names) for part in L.RESTS_ON.get(name, (name,)))
    return dict.fromkeys(parts, ()) | monoids


def certificate(equations: Equations, fresh: bool = False) -> tuple[Law, ...]:
    """Return the laws that a program's folds rest on, each once, with what is known of them."""
    folded = _folded(equations).items()
    return tuple(law for monoid, fields in folded for law in certify(monoid, fields, fresh))


def commutes(equations: Equations, monoid: UserMonoid) -> bool:
    """True if the order of elements is proved not to matter, in a program's folds."""
    return is_commutative(certify(monoid, _folded(equations).get(monoid, ())))


def require_proved(name: str, failed: Law | None) -> None:
    """Raise an error if a law is not proved on which something rests."""
    if failed is not None:
        raise MonoidLawError(
            f"'{name}' rests on a law that could not be proved",
            notes=[f"law: {failed.name}, {failed.statement}", _outcome(failed)],
        )


def require_program(equations: Equations) -> tuple[Law, ...]:
    """Return the laws of a program; raise an error at the first that is not proved."""
    require_proved(EVERYWHERE, missing(certify(EVERYWHERE)))
    for monoid, fields in _folded(equations).items():
        if isinstance(monoid, str):
            require_proved(monoid, missing(certify(monoid)))
        else:
            spans = equations.origin.span(monoid.name)
            require(monoid, fields, text=equations.origin.text, span=next(iter(spans), None))
    return certificate(equations)
