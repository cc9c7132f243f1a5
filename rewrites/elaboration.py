"""Elaboration: derived reductions become sums, maxima and exponentials.

Each rule is the definition of a word of the language. What has no better form stays:
tanh, for one, loses small arguments when written with exponentials.
"""

from __future__ import annotations

from collections.abc import Iterator

from monocomp import terms as T
from monocomp.rewrites.frames import maxima
from monocomp.rewrites.normal_form import normalise
from monocomp.rewrites.single_folds import reads_computed
from monocomp.rewriting.equations import Guard, definitions, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, frame, is_mantissa
from monocomp.terms.monomials import addends, factors

elaboration = RuleSet("elaboration", "derived reductions become sums of exponentials")


def _named(t: Term, op: str, name: str) -> bool:
    return t.op == op and t.attr.monoid == name


elaboration.add(
    *definitions("""
    # The logarithm of a sum of exponentials.
    expand_logsumexp: logsumexp[k if c](x) = log(sum[k if c](exp(x)))

    # A mean is a sum over a count; over nothing it is 0.
    expand_mean: mean[k if c](x) = sum[k if c](x) / sum[k if c](1)

    # A variance is the mean squared distance from the mean.
    expand_var: var[k if c](x) = mean[k if c]((x - mean[k if c](x)) ** 2)

    # Some condition holds if a count is not 0.
    expand_any: any[k if c](p) = 0 < sum[k if c and p](1)

    # All conditions hold if none fails.
    expand_all: all[k if c](p) = not 0 < sum[k if c and not p](1)
    """)
)


def _holds_logarithm(found: Bindings) -> bool:
    """True if an addend is the logarithm of an aggregate."""
    parts = (T.split_coefficient(a)[1] for a in addends(found.terms["x"]))
    return any(x is not None and x.op == "log" and bool(x.folded) for x in parts)


elaboration.add(
    *equations(
        """
        # The sigmoid of a logarithm is a quotient without exponentials.
        expand_sigmoid: sigmoid(x) = exp(x) / (1 + exp(x))  worth x holds a logarithm

        # The soft maximum of a logarithm and 0 is the logarithm of a sum.
        expand_softplus: softplus(x) = log(1 + exp(x))  worth x holds a logarithm
        """,
        x_holds_a_logarithm=Guard(_holds_logarithm, "log(sum[l](S[{1},l] ** 2))"),
    )
)


@elaboration.rule
def expand_softmax(t: Term) -> Term | None:
    """A softmax is a weight over the sum of the weights; outside its filter it is 0.

    Law:     definition of softmax
    before:  P[i,k] = softmax[k if k <= i](S[i,k])
    after:   P[i,k] = (k <= i) * exp(S[i,k]) / sum[j if j <= i](exp(S[i,j]))
    """
    if not _named(t, "fold_at", "softmax"):
        return None
    return T.by_definition(t)


@elaboration.rule
def expand_log_softmax(t: Term) -> Term | None:
    """The logarithm of a softmax; outside its filter it is -inf.

    Law:     definition of log_softmax
    before:  P[i,k] = log_softmax[k](S[i,k])
    after:   P[i,k] = S[i,k] - logsumexp[j](S[i,j])
    """
    if not _named(t, "fold_at", "log_softmax"):
        return None
    return T.by_definition(t)


@elaboration.rule
def cancel_shift(t: Term) -> Term | None:
    """What elements and their mean are both shifted by cancels: it may be far larger than the
    distances, which would be lost in rounding.

    Law:     a + u - sum(w * (a + u)) / sum(w) = u - sum(w * u) / sum(w)
    Claims:  distributivity
    Needs:   a is finite where there is an element, and is not of nothing; sum(w) is not 0 where
             there is one, or the element is, too; all of a cancels
    before:  A[i] = sum[k]((X[i,k] + M[i] - sum[k](X[i,k] + M[i]) / sum[k](1.0)) ** 2)
    after:   A[i] = sum[k]((X[i,k] - sum[k](X[i,k]) / sum[k](1.0)) ** 2)
    """
    if not _named(t, "fold", "sum") or len(t.attr.indices) != 1:
        return None
    (bound,), (condition, body) = T.open_fold(t)
    element = T.Product(list(factors(body)), known=frozenset(T.conjuncts(condition)))
    for f in element.factors:
        base, power = T.base_and_power(f)
        moving = [a for a in addends(base) if bound.attr[0] in a.free]
        fixed = [a for a in addends(base) if a not in moving]
        for mean in fixed if moving else ():
            for centre, shift in _apart(mean, bound, condition, element):
                left = T.add(shift, *(a for a in fixed if a is not mean))
                if left is T.ZERO or len(addends(left)) < len(fixed) - 1:
                    others = (g for g in element.factors if g is not f)
                    distance = T.power_of(T.add(*moving, centre, left), power)
                    return T.fold("sum", (bound,), condition, T.mul(*others, distance))
    return None


def _apart(
    mean: Term, bound: Term, condition: Term, element: T.Product
) -> Iterator[tuple[Term, Term]]:
    """(p * sum(w * u), a) for p * sum(w * (a + u)) over a domain with p = 1 / sum(w), beside an
    element of that domain."""
    domain = T.domain_of(T.fold("sum", (bound,), condition, T.ONE))
    length = T.as_float(T.extent_of(bound.attr[1]))
    for total in factors(mean):
        if not _named(total, "fold", "sum") or T.domain_of(total) != domain:
            continue
        scale = [g for g in factors(mean) if g is not total]
        _, (_, body) = T.open_as(total, bound.attr[:1])
        for f in factors(body):
            shift = [a for a in addends(f) if bound.attr[0] not in a.free]
            if not shift or not all(map(_is_plain, shift)):
                continue
            weight = T.mul(T.ONE, *(g for g in factors(body) if g is not f))
            count = T.fold("sum", (bound,), condition, weight)
            if weight is T.ONE and condition is T.TRUE and T.power_of(length, -1) in scale:
                count = length
            number = T.ONE
            for g in factors(T.construct("mul", *scale, count)):
                if not (T.is_bracket(g) and _is_said(g.args[0], count, element)):
                    number = T.mul(number, g)
            others = (a for a in addends(f) if a not in shift)
            centre = T.fold("sum", (bound,), condition, T.mul(weight, T.add(T.ZERO, *others)))
            yield T.mul(*scale, centre), T.mul(number, T.add(*shift))


def _is_plain(t: Term) -> bool:
    """Is t a quotient of sums that are finite if what they read is, and 0 where its divisor is of
    nothing, as 0 / 0 is then? An extremum over nothing is infinite."""
    powers = [T.base_and_power(f) for f in factors(t)]
    over = [base for base, power in powers if power > 0]
    under = [base for base, power in powers if power < 0]
    known = T.Product(over)
    return (
        T.is_finite_if_there(t)
        and not _may_be_extreme(t)
        and all(any(known.vanishes_with(f, z) for f in over) for z in under if T.may_be_empty(z))
    )


def _may_be_extreme(t: Term) -> bool:
    """Does t hold another aggregate than sums that may be over nothing? Not where a sum over the
    same elements has one: max(x) in sum(exp(x - max(x)))."""
    start: tuple[Term, frozenset[object]] = t, frozenset()
    stack, seen = [start], {start}
    while stack:
        s, there = stack.pop()
        if s.op in ("fold", "fold_at"):
            if s.attr.monoid == "sum":
                there |= {T.domain_of(s)}
            elif T.domain_of(s) not in there:
                return True
        new = {(a, there) for a in T.children(s) if a.folded} - seen
        stack.extend(new)
        seen |= new
    return False


def _is_said(condition: Term, count: Term, element: T.Product) -> bool:
    """Is a count not 0 beside such an element?"""
    is_there = T.is_there(count)
    return condition is is_there and (T.is_positive(count.args[1]) or element.says(is_there))


@elaboration.rule
def expand_prefix(t: Term) -> Term | None:
    """A prefix aggregate at k is the aggregate over what comes no later than k.

    Law:     definition of the inclusive prefix
    before:  C[i,k] = X[i,k] - sum[..k](X[i,k])
    after:   C[i,k] = X[i,k] - sum[j if j <= k](X[i,j])
    """
    if t.op != "fold_at" or t.attr.monoid in ("softmax", "log_softmax", "top", "argtop"):
        return None
    return T.by_definition(t)


@elaboration.rule
def expand_scaled(t: Term) -> Term | None:
    """A fold in SE is a sum with its exponent split off; lifting will split it again.

    So a program that has been derived, and one that a user writes in this form, come to the
    same normal form as any other.

    Law:     SE_k(v_k, s_k).v = exp(-m) * sum_k exp(s_k) v_k  with  m = max_k s_k
    Claims:  scaled numbers, SE
    before:  O[i] = SE[k](V[k], S[i,k]).v
    after:   O[i] = exp(-max[k](S[i,k])) * sum[k](exp(S[i,k]) * V[k])
    """
    if not is_mantissa(t) or t.args[0].op != "fold":
        return None
    opened, (condition, value, exponent) = T.open_fold(t.args[0])
    total = T.fold("sum", opened, condition, T.mul(value, T.exp(exponent)))
    # In the form of the frames that it is multiplied with, which it cancels.
    largest = normalise(T.fold("max", opened, condition, exponent), maxima)
    return T.mul(total, T.exp(T.neg(largest)))


@elaboration.rule
def name_frame(t: Term) -> Term | None:
    """The exponent of a fold in SE is the largest exponent of its elements.

    Law:     SE_k(v_k, s_k).m = max_k s_k
    Claims:  SE
    before:  M[i] = SE[k](V[k], S[i,k]).m
    after:   M[i] = max[k](S[i,k])
    """
    if t.op != "field" or t.attr != "m" or t.args[0].op != "fold":
        return None
    folded = t.args[0]
    if folded.attr.monoid is not SE_PAIR or len(folded.attr.indices) != 1:
        return None
    (bound,), (condition, _, exponent) = T.open_fold(folded)
    return frame(bound, condition, exponent)


@elaboration.rule
def nest_indices(t: Term) -> Term | None:
    """A fold over several indices is a fold of folds, row by row; what its filter asks of rows is
    asked of them.

    Law:     fold over (j, k) = fold over j of the fold over k: associative, in the same order
    Claims:  interchange
    before:  A[i] = max[j, k](X[i,j,k])
    after:   A[i] = max[j](max[k](X[i,j,k]))
    """
    if t.op != "fold" or len(t.attr.indices) < 2:
        return None
    monoid = t.attr.monoid
    if isinstance(monoid, str) and monoid not in ("sum", "max", "min", "prod"):
        return None
    (outer, *inner), (condition, *elements) = T.open_fold(t)
    names = {i.attr[0] for i in inner}
    parts = T.conjuncts(condition)
    rows = [c for c in parts if names.isdisjoint(c.free) and not reads_computed(c)]
    row = T.fold(
        monoid, tuple(inner), T.conjunction(*(c for c in parts if c not in rows)), *elements
    )
    if isinstance(monoid, str):
        return T.fold(monoid, (outer,), T.conjunction(*rows), row)
    fields = (T.field(row, f) for f in monoid.fields)
    return T.fold(monoid, (outer,), T.conjunction(*rows), *fields)
