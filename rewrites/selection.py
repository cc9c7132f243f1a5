"""Selection: what keeps the order of elements leaves a choice among them.

argmax and argmin, top and argtop compare elements and do nothing else. So they commute with
increasing functions: places do not change, and values are mapped after they are chosen. The
largest probabilities are then found among the logits, in the pass that sums the weights.
"""

from __future__ import annotations

from collections.abc import Callable

from monocomp import terms as T
from monocomp.algebra import is_selection
from monocomp.monomials import factors
from monocomp.rules import RuleSet
from monocomp.terms import Term

selection = RuleSet("selection", "increasing functions leave a choice among elements")

_OPPOSITE = {"argmax": "argmin", "argmin": "argmax"}


@selection.rule
def choose_by_order(t: Term) -> Term | None:
    """The place of an extreme element is that of its image under an increasing function.

    Law:     argmax f(x) = argmax x for increasing f, and argmax(-x) = argmin(x)
    Claims:  increasing functions
    Needs:   f is a shift, a product with a positive factor, or exp, none of them by the index
    before:  A[i] = argmax[k](3 * exp(S[i,k] - B[i]) + C[i])
    after:   A[i] = argmax[k](S[i,k])
    """
    if t.op != "fold" or t.attr.monoid not in _OPPOSITE:
        return None
    (bound,), (condition, core) = T.open_fold(t)
    monoid = t.attr.monoid
    while True:
        number, rest = T.split_coefficient(core)
        if rest is not None and number < 0:
            monoid, core = _OPPOSITE[monoid], T.neg(core)
        inner = _without_increasing(core, t)
        if inner is None:
            break
        core = inner[0]
    return T.fold(monoid, (bound,), condition, core)


@selection.rule
def list_places_by_order(t: Term) -> Term | None:
    """The places of the largest elements are those of their images.

    Law:     argtop f(x) = argtop x for increasing f
    Claims:  increasing functions
    Needs:   f is a shift, a product with a positive factor, or exp, none of them by the index
    before:  index e < 2
             A[i,e] = argtop[k -> e](3 * exp(S[i,k] - B[i]) + C[i])
    after:   index e < 2
             A[i,e] = argtop[k -> e](S[i,k])
    """
    if not is_selection(t) or t.attr.monoid != "argtop":
        return None
    core, _ = _peeled(t)
    return _selected(t, "argtop", core)


@selection.rule
def map_listed_values(t: Term) -> Term | None:
    """The largest images are the images of the largest elements.

    Law:     top f(x) = f(top x) for increasing f; what is missing stays -inf
    Claims:  increasing functions
    Needs:   f is a shift, a product with a positive factor, or exp, none of them by the index
    before:  index e < 2
             T[i,e] = top[k -> e](2 * exp(S[i,k]))
    after:   index e < 2
             T[i,e] = where(0 <= argtop[k -> e](S[i,k]), 2 * exp(top[k -> e](S[i,k])), -inf)
    """
    if not is_selection(t) or t.attr.monoid != "top":
        return None
    core, images = _peeled(t)
    if not images:
        return None
    value = _selected(t, "top", core)
    for image in reversed(images):
        value = image(value)
    is_there = T.compare("<=", T.const(0), _selected(t, "argtop", core))
    return T.where(is_there, value, T.NEG_INF)


def _selected(t: Term, monoid: str, core: Term) -> Term:
    (bound,), (condition, _) = T.open_fold(t)
    return T.fold_at(monoid, t.args[0], bound, condition, core, target=t.attr.target)


def _peeled(t: Term) -> tuple[Term, list[Callable[[Term], Term]]]:
    """The element without increasing functions around it, and those, the outermost first."""
    _, (_, core) = T.open_fold(t)
    images = []
    while (inner := _without_increasing(core, t)) is not None:
        core, image = inner
        images.append(image)
    return core, images


def _without_increasing(x: Term, choice: Term) -> tuple[Term, Callable[[Term], Term]] | None:
    """(y, f) with x = f(y) for an increasing f that does not vary with the index of a choice."""
    (bound,), _ = T.open_fold(choice)
    name = bound.attr[0]
    if name not in x.free:
        return None
    if x.op == "exp":
        return x.args[0], T.exp
    if x.op == "add":
        fixed = [a for a in x.args if name not in a.free]
        moving = [a for a in x.args if name in a.free]
        if not fixed or not all(map(_is_finite, fixed)):
            return None
        return T.add(T.const(0, x.kind), *moving), lambda y: T.add(*fixed, y)
    fixed = [f for f in factors(x) if name not in f.free and _is_positive(f, choice)]
    if not fixed:
        return None
    moving = [f for f in factors(x) if f not in fixed]
    return T.mul(T.const(1, x.kind), *moving), lambda y: T.mul(*fixed, y)


def _is_finite(t: Term) -> bool:
    """Is no -inf written in t? An element that it is added to would be missing."""
    return not any(s in (T.INF, T.NEG_INF) for s in T.subterms(t))


def _is_positive(factor: Term, choice: Term) -> bool:
    """Is the factor positive, wherever there is an element to choose? A divisor that is a sum
    over nothing makes it 0."""
    return T.is_positive(factor) and all(
        s.args[0] is T.TRUE or T.domain_of(s) == T.domain_of(choice)
        for s in T.subterms(factor)
        if s.op == "fold"
    )
