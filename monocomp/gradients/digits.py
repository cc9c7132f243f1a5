"""Digits of logarithms: beside a large exponent a float has none for how many elements have it.

    L[q] = log(sum[k](exp(S[q,k])))           of logits of -1e9 is -1e9, and exp(S - L) is 1
    m[q] = max[k](S[q,k])                     is saved for that, with what is left of
    L[q] = log(sum[k](exp(S[q,k] - m[q])))    and a weight is exp((S - m) - L)

Logits that are sums of products were rounded as much, and a distance differs from element to
element: where they are large few elements count. L is enough for them.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.monomials import addends, factors


def loses_digits(total: Term) -> bool:
    """True if the logarithm of a sum may have fewer digits than its exponents."""
    sums = (a for a in addends(total) if a.op == "fold")
    return any(not _is_computed(s.args[0]) for s in T.subterms(*sums) if s.op == "exp")


def _is_computed(t: Term) -> bool:
    """True if all that is added, or chosen from, is made of positions or of sums of products."""
    if t.op in ("add", "where", "maximum", "minimum"):
        parts = t.args[t.op == "where" :]
        return all(_is_computed(a) for a in parts if a is not T.NEG_INF)
    if t.op in T.READS or t.kind == "bool":
        return False
    if t.op == "fold":
        return t.attr.monoid == "sum" and _sums_computed(t)
    return t.op == "index" or any(map(_is_computed, t.args))


def _sums_computed(t: Term) -> bool:
    """True if a sum adds up computed numbers, and not elements as they are read."""
    numbers = [f for f in factors(t.args[1]) if not T.is_bracket(f)]
    return len(numbers) > 1 or not all(map(T.is_read, numbers))


def largest_exponent(t: Term) -> Term:
    """Return the largest exponent of the weights that are added up."""
    match t.op:
        case "exp":
            return t.args[0]
        case "fold" if t.attr.monoid == "sum":
            opened, (condition, body) = T.open_fold(t)
            return T.fold("max", opened, condition, largest_exponent(body))
        case "mul":
            return T.add(T.ZERO, *map(largest_exponent, t.args))
        case "add":
            largest, *others = map(largest_exponent, t.args)
            for e in others:
                largest = T.function("maximum", largest, e)
            return largest
    return T.ZERO


def less_exponent(t: Term, shift: Term) -> Term:
    """Return a sum of weights, with so much less in each exponent."""
    if t.op == "add":
        return T.add(*(less_exponent(a, shift) for a in t.args))
    if t.op == "fold" and t.attr.monoid == "sum":
        opened, (condition, body) = T.open_fold(t)
        return T.fold("sum", opened, condition, less_exponent(body, shift))
    return T.mul(t, T.exp(T.neg(shift)))
