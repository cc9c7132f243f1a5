"""The normal form: what does not vary with a fold's index leaves the fold.

An earlier result then meets its inverse outside and cancels in the ring: the naive, the
safe and the lazy softmax become one object, a quotient of two plain sums, and no maximum
is left. Every rule is exact wherever the source is finite.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting import RuleSet
from monocomp.terms import Term

normal_form = RuleSet("normal_form", "what does not vary with a fold's index leaves the fold")


def _is_fold(t: Term, *names: str) -> bool:
    return t.op == "fold" and len(t.attr.indices) == 1 and t.attr.monoid in names


def _opened(t: Term) -> tuple[Term, str, Term, Term]:
    """(index, its name, condition, body) of a fold over one index."""
    (bound,), (condition, body) = T.open_fold(t)
    return bound, bound.attr[0], condition, body


def _factors(t: Term) -> tuple[Term, ...]:
    return t.args if t.op == "mul" else (t,)


def _addends(t: Term) -> tuple[Term, ...]:
    return t.args if t.op == "add" else (t,)


@normal_form.rule
def assume_filter(t: Term) -> Term | None:
    """Inside a filtered fold its filter holds.

    Law:     [c] = 1 where c holds
    Claims:  brackets
    before:  A[i] = sum[k if k <= i]((k <= i) * X[i,k])
    after:   A[i] = sum[k if k <= i](X[i,k])
    """
    if t.op != "fold" or t.args[0] is T.TRUE:
        return None
    opened, (condition, *bodies) = T.open_fold(t)
    known = frozenset(T.conjuncts(condition))
    new = [_assume(b, known) for b in bodies]
    return T.refold(t, condition, *new, opened=opened) if new != bodies else None


def _assume(t: Term, known: frozenset[Term]) -> Term:
    if t.kind == "bool":
        return T.conjunction(*(c for c in T.conjuncts(t) if c not in known))
    if T.is_bracket(t):
        return T.bracket(_assume(t.args[0], known))
    if t.op in ("mul", "add", "where", "exp", "pow", "log"):
        return T.map_children(t, lambda a: _assume(a, known))
    return t


@normal_form.rule
def filter_bracket(t: Term) -> Term | None:
    """A factor that is 0 where a condition fails makes the condition a filter.

    Law:     elements that are 0, the unit of the sum, can be left out
    Claims:  units
    Needs:   a condition: [c], or where(c, x, 0)
    before:  A[i] = sum[k]((k <= i) * X[i,k])
    after:   A[i] = sum[k if k <= i](X[i,k])
    """
    if not _is_fold(t, "sum"):
        return None
    bound, _, condition, body = _opened(t)
    zero, one = T.const(0, body.kind), T.const(1, body.kind)
    masks: list[Term] = []
    factors: list[Term] = []
    for f in _factors(body):
        mask, value = (f.args[0], one) if T.is_bracket(f) else _unmasked(f, zero)
        masks.append(mask)
        factors.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    return T.fold("sum", (bound,), T.conjunction(condition, *masks), T.mul(one, *factors))


def _unmasked(t: Term, unit: Term) -> tuple[Term, Term]:
    """(condition, value) of a term that is the unit where the condition fails."""
    if t.op == "where" and t.args[2] is unit:
        return t.args[0], t.args[1]
    if t.op == "where" and t.args[1] is unit:
        return T.negate(t.args[0]), t.args[2]
    return T.TRUE, t


@normal_form.rule
def filter_masked_extremum(t: Term) -> Term | None:
    """A maximum over elements that a condition sets to -inf is a filtered maximum.

    Law:     elements equal to the unit can be left out
    Claims:  units
    before:  M[i] = max[k](where(k <= i, S[i,k], -inf))
    after:   M[i] = max[k if k <= i](S[i,k])
    """
    if not _is_fold(t, "max", "min"):
        return None
    bound, _, condition, body = _opened(t)
    unit = T.NEG_INF if t.attr.monoid == "max" else T.INF
    masks: list[Term] = []
    addends: list[Term] = []
    for a in _addends(body):
        mask, value = _unmasked(a, unit)
        masks.append(mask)
        addends.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    return T.fold(t.attr.monoid, (bound,), T.conjunction(condition, *masks), T.add(*addends))


@normal_form.rule
def split_sum(t: Term) -> Term | None:
    """A sum of differently weighted terms is a sum of sums.

    Law:     sum(a + b) = sum(a) + sum(b)
    Claims:  interchange
    Needs:   an addend with an exponential weight; a difference such as x - mean stays whole
    before:  A[i] = sum[k](exp(S[i,k]) * X[i,k] + exp(R[i,k]))
    after:   A[i] = sum[k](exp(S[i,k]) * X[i,k]) + sum[k](exp(R[i,k]))
    """
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    if body.op != "add":
        return None
    weighted = [a for a in body.args if any(f.op == "exp" and name in f.free for f in _factors(a))]
    if not weighted:
        return None
    return T.add(*(T.fold("sum", (bound,), condition, a) for a in body.args))


@normal_form.rule
def hoist_factor(t: Term) -> Term | None:
    """A factor that does not vary with the index leaves the sum.

    Law:     sum(a * x) = a * sum(x)
    Claims:  distributivity, exponentials
    before:  A[i] = sum[k](exp(S[i,k] - M[i]) * X[k] / Z[i])
    after:   A[i] = exp(-M[i]) / Z[i] * sum[k](exp(S[i,k]) * X[k])
    """
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    outside: list[Term] = []
    inside: list[Term] = []
    for factor in _factors(body):
        if factor.op == "exp" and name in factor.free:
            fixed = [a for a in _addends(factor.args[0]) if name not in a.free]
            moving = [a for a in _addends(factor.args[0]) if name in a.free]
            if fixed:
                outside.append(T.exp(T.add(*fixed)))
                factor = T.exp(T.add(*moving))
            inside.append(factor)
        elif name in factor.free:
            inside.append(factor)
        else:
            outside.append(factor)
    if not inside and condition is T.TRUE:
        return T.mul(body, T.extent_of(bound.attr[1]))
    one = T.const(1, body.kind)
    if not outside or T.mul(*outside) is one:
        return None
    return T.mul(*outside, T.fold("sum", (bound,), condition, T.mul(one, *inside)))


@normal_form.rule
def hoist_addend(t: Term) -> Term | None:
    """An addend that does not vary with the index leaves a maximum or minimum.

    Law:     max(a + x) = a + max(x), because addition is monotone
    Claims:  translation
    before:  M[i] = max[k](S[i,k] + B[i])
    after:   M[i] = B[i] + max[k](S[i,k])
    """
    if not _is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = _opened(t)
    outside = [a for a in _addends(body) if name not in a.free]
    inside = [a for a in _addends(body) if name in a.free]
    if not outside or not inside:
        return None
    moving = T.add(T.const(0, body.kind), *inside)
    return T.add(*outside, T.fold(t.attr.monoid, (bound,), condition, moving))


@normal_form.rule
def hoist_positive_factor(t: Term) -> Term | None:
    """A positive factor leaves a maximum or minimum; a negative number turns it round.

    Law:     max(a * x) = a * max(x) for a > 0, and max(-x) = -min(x)
    Claims:  scaling
    Needs:   the factor is provably positive
    before:  M[i] = max[k](-2 * S[i,k] / sqrt(|k|))
    after:   M[i] = -2 * min[k](S[i,k]) / sqrt(|k|)
    """
    if not _is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = _opened(t)
    number, rest = T.split_coefficient(body)
    if rest is None or name not in rest.free:
        return None
    outside = [f for f in _factors(rest) if name not in f.free and T.is_positive(f)]
    inside = [f for f in _factors(rest) if f not in outside]
    monoid = t.attr.monoid
    if number == 1 and not outside:
        return None
    if number < 0:
        monoid = "min" if monoid == "max" else "max"
    moving = T.mul(T.const(1, body.kind), *inside)
    folded = T.fold(monoid, (bound,), condition, moving)
    return T.mul(T.const(number, body.kind), *outside, folded)


@normal_form.rule
def order_sums(t: Term) -> Term | None:
    """Sums that follow one another directly are taken in one fixed order.

    Law:     sum_a sum_b = sum_b sum_a; a filter goes with the innermost index it names
    Claims:  interchange
    before:  A[i] = sum[k](sum[j if j <= k](X[i,j,k]))
    after:   A[i] = sum[j](sum[k if j <= k](X[i,j,k]))
    """
    if not _is_fold(t, "sum") or not _is_fold(t.args[1], "sum"):
        return None
    outer, name, condition, body = _opened(t)
    if not _is_fold(body, "sum"):
        return None
    inner, _, inner_condition, inner_body = _opened(body)
    if inner.attr[1] >= outer.attr[1]:
        return None
    parts = [*T.conjuncts(condition), *T.conjuncts(inner_condition)]
    deep = T.conjunction(*(c for c in parts if name in c.free))
    rest = T.conjunction(*(c for c in parts if name not in c.free))
    return T.fold("sum", (inner,), rest, T.fold("sum", (outer,), deep, inner_body))


def normalise(t: Term) -> Term:
    """Bring one term to normal form."""
    memo: dict[Term, Term] = {}

    def visit(s: Term) -> Term:
        found = memo.get(s)
        if found is None:
            found = T.map_children(s, visit)
            step = normal_form.first(found)
            if step is not None:
                found = visit(step[1])
            memo[s] = found
        return found

    return visit(t)
