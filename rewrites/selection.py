"""Selection: what keeps the order of elements leaves a choice among them, and a comparison.

argmax and argmin, top and argtop compare elements and do nothing else. So they commute with
increasing functions: positions do not change, and values are mapped after they are chosen. The
largest probabilities are then found among the logits, in the pass that sums the weights.
"""

from __future__ import annotations

from collections.abc import Callable

from monocomp import terms as T
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.monomials import addends, beside_weight, factors

selection = RuleSet("selection", "increasing functions leave a choice among elements")

_OPPOSITE = {"argmax": "argmin", "argmin": "argmax"}


@selection.procedure
def choose_by_order(t: Term) -> Term | None:
    """The position of an extreme element is that of its image under an increasing function.

    Law:     argmax f(x) = argmax x for increasing f, and argmax(-x) = argmin(x)
    Claims:  increasing functions
    Needs:   f is a shift by a finite number, or a product with a positive and finite one; or exp,
             of more than -inf, unless the filter only ends the set: else one it excludes is first
    before:  A[i] = argmax[k](3 * exp(S[i,k] - i) + 2)
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
        if inner is None or (core.op == "exp" and not _is_element(inner[0], bound, condition)):
            break
        core = inner[0]
    return T.fold(monoid, (bound,), condition, core)


def _is_element(x: Term, bound: Term, condition: Term) -> bool:
    """True if an element x is found where all are -inf. It is like what a filter excludes, of which
    the first is found; that is an element if all are that come before one."""
    name = bound.attr[0]

    def ends(c: Term) -> bool:
        is_limit = c.attr in ("<", "<=") and c.args[0] is bound
        return name not in c.free or (is_limit and name not in c.args[1].free)

    return T.exceeds_minus_infinity(x) or all(map(ends, T.conjuncts(condition)))


@selection.procedure
def list_positions_by_order(t: Term) -> Term | None:
    """The positions of the largest elements are those of their images.

    Law:     argtop f(x) = argtop x for increasing f
    Claims:  increasing functions
    Needs:   f is a shift by a finite number, or a product with a positive and finite one; or exp,
             of no less than a number, as -inf would be missing
    before:  index e < 2
             A[i,e] = argtop[k -> e](3 * S[i,k] + i)
    after:   index e < 2
             A[i,e] = argtop[k -> e](S[i,k])
    """
    if not is_selection(t) or t.attr.monoid != "argtop":
        return None
    core, _ = _peeled(t)
    return _selected(t, "argtop", core)


@selection.procedure
def map_listed_values(t: Term) -> Term | None:
    """The largest images are the images of the largest elements.

    Law:     top f(x) = f(top x) for increasing f; what is missing stays -inf
    Claims:  increasing functions
    Needs:   f is a shift by a finite number, or a product with a positive and finite one; or exp,
             of no less than a number, as -inf would be missing
    before:  index e < 2
             T[i,e] = top[k -> e](2 * S[i,k])
    after:   index e < 2
             T[i,e] = where(0 <= argtop[k -> e](S[i,k]), 2 * top[k -> e](S[i,k]), -inf)
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


@selection.procedure
def compare_by_order(t: Term) -> Term | None:
    """A comparison does without what both sides have in common.

    So rounding does not tell an element from the largest of all, if it is that.

    Law:     a + x < a + y if and only if x < y, and for a > 0 so is a * x < a * y
    Claims:  increasing functions
    Needs:   a is finite; or it divides, as 1 / z or -log(z), by a sum z of weights that is 0 only
             where those on both sides are
    before:  A[i,k] = where(max[j](S[i,j]) - i <= S[i,k] - i, X[k], 0)
    after:   A[i,k] = where(max[k](S[i,k]) <= S[i,k], X[k], 0)
    """
    if t.op != "compare" or t.args[0].kind != "float":
        return None
    for parts, join, leaves in ((addends, T.add, _is_shift), (factors, T.mul, _is_scale)):
        left, right = ([*parts(x)] for x in t.args)
        for a in (a for a in left if a in right and len(left) > 1 < len(right)):
            unit = T.ZERO if join is T.add else T.ONE
            x, y = (join(unit, *(b for b in side if b is not a)) for side in (left, right))
            if leaves(a, x, y):
                return T.compare(t.attr, x, y)
    return None


def _is_shift(a: Term, x: Term, y: Term) -> bool:
    """True if a is finite, or infinite only where x and y are -inf."""
    _, logarithm = T.split_coefficient(a)
    if logarithm is None or logarithm.op != "log" or T.is_finite(a):
        return T.is_finite(a)
    return all(_vanishes_with(T.exp(side), logarithm.args[0]) for side in (x, y))


def _is_scale(a: Term, x: Term, y: Term) -> bool:
    """True if a is positive and finite, or one over what is 0 only where x and y are."""
    if a.op != "pow" or a.attr > 0 or T.is_finite(a):
        return T.is_positive(a) and T.is_finite(a)
    return all(_vanishes_with(side, a.args[0]) for side in (x, y))


def _vanishes_with(t: Term, z: Term) -> bool:
    """True if t is 0 wherever the sum z of weights is, as one of them, or the largest of these."""
    if not T.is_nonnegative(z):
        return False
    known = [c for f in factors(t) if T.is_bracket(f) for c in T.conjuncts(f.args[0])]
    for f in factors(t):
        for a in addends(f.args[0]) if f.op == "exp" else [f]:
            for m in factors(a):
                if m.op == "fold" and m.attr.monoid in ("max", "min") and T.has_element(m):
                    _, (condition, element) = T.open_fold(m)
                    f = T.replace(f, m, element)
                    known += T.conjuncts(condition)
        if T.vanishes_with(factors(f), z, frozenset(known)):
            return True
    return False


def _selected(t: Term, monoid: str, core: Term) -> Term:
    (bound,), (condition, _) = T.open_fold(t)
    return T.fold_at(monoid, t.args[0], bound, condition, core, target=t.attr.target)


def _peeled(t: Term) -> tuple[Term, list[Callable[[Term], Term]]]:
    """Return the element without increasing functions around it, and those, the outermost first. An
    element exp(-inf) = 0 is one, while -inf is none, so that its exponent is a number."""
    _, (_, core) = T.open_fold(t)
    images = []
    while (inner := _without_increasing(core, t)) is not None:
        is_weight = core.op == "exp"
        core, image = inner
        if is_weight and not T.exceeds_minus_infinity(core):
            core = T.function("maximum", core, _LEAST)
        images.append(image)
    return core, images


_LEAST = T.const(-(2**127), "float")  # the exponential of it is 0, and it is finite in all dtypes


def _without_increasing(x: Term, choice: Term) -> tuple[Term, Callable[[Term], Term]] | None:
    """(y, f) with x = f(y) for an increasing f that does not vary with the index of a choice."""
    (bound,), (condition, _) = T.open_fold(choice)
    name = bound.attr[0]
    if name not in x.free:
        return None
    if x.op == "exp":
        return x.args[0], T.exp
    if x.op == "add":
        fixed = [a for a in x.args if name not in a.free]
        moving = [a for a in x.args if name in a.free]
        if not fixed or not all(map(T.is_finite, fixed)):
            return None
        return T.add(T.const(0, x.kind), *moving), lambda y: T.add(*fixed, y)
    known = [f.args[0] for f in factors(x) if T.is_bracket(f)]
    holding = frozenset(T.conjuncts(T.conjunction(condition, *known)))
    fixed = [f for f in factors(x) if name not in f.free and _keeps_order(f, x, holding)]
    moving = [f for f in factors(x) if f not in fixed]
    fixed, moving = beside_weight(fixed, moving, T.conjuncts(condition))
    if not fixed:
        return None
    return T.mul(T.const(1, x.kind), *moving), lambda y: T.mul(*fixed, y)


def _keeps_order(factor: Term, element: Term, known: frozenset[Term]) -> bool:
    """True if the factor is positive and finite, or a power of a sum of weights, such as their
    divisor, that are all 0 where it is."""
    if T.is_positive(factor) and T.is_finite(factor):
        return True
    return factor.op == "pow" and T.vanishes_with(factors(element), factor.args[0], known)
