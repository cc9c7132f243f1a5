"""Earlier results leave the folds that they stand in, and cancel where they meet their inverses."""

from __future__ import annotations

from fractions import Fraction

from monocomp import terms as T
from monocomp.rewrites.hoisting import leaving
from monocomp.rewrites.single_folds import weight_of
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings, parts_of
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import (
    addends,
    common_number,
    exponent_of,
    exponentials_of,
    factors,
    is_power_in,
    monomial,
    without_powers,
)

results = RuleSet("results", "what earlier results have in common leaves folds")


@results.procedure
def assume_filter(t: Term) -> Term | None:
    """Inside a filtered fold its filter holds.

    Law:     a condition is 1 where it holds
    Claims:  brackets
    before:  A[i] = sum[k if k <= i]((k <= i) * X[i,k])
    after:   A[i] = sum[k if k <= i](X[i,k])
    """
    if t.op != "fold" or t.args[0] is T.TRUE:
        return None
    opened, (condition, *bodies) = T.open_fold(t)
    known = frozenset(T.conjuncts(condition))
    new = [_assume(b, known) for b in bodies]
    if new == bodies:
        return None
    return T.refold(t, condition, *new, opened=opened)


def _assume(t: Term, known: frozenset[Term]) -> Term:
    """Return a term where the conditions hold; folds inside keep theirs, as loops share filters."""
    if t.kind == "bool":
        return T.conjunction(*(c for c in T.conjuncts(t) if c not in known))
    if T.is_bracket(t):
        return T.rebuild(t, (_assume(t.args[0], known),))
    if t.op in ("mul", "add", "where", "exp", "pow", "log"):
        return T.map_children(t, lambda a: _assume(a, known))
    return t


@results.procedure
def common_result(t: Term) -> Term | None:
    """An earlier result that all addends are multiplied with, or have in their exponents,
    leaves them.

    Outside it meets the frame in which they were added, so that scaled numbers which were
    joined are plain ones again.

    Law:     `exp(a + c) * p * x + exp(b + c) * p * y = exp(c) * p * (exp(a) * x + exp(b) * y)`
    Claims:  distributivity, arithmetic, scaling
    Needs:   c and p hold a fold, or c a maximum; of a maximum or minimum only exp(c) leaves; p
             is no truth value, and is a divisor only beside exp(c) or another p; p ** 1 is more
             than -inf, as -inf * 1 - inf * 2 is -inf. What else the exponents of a sum have in
             common leaves with c, which it may be the frame of
    before:  Z[i] = exp(M[i]) * (exp(A[i] - max[k](S[i,k])) + exp(-max[k](S[i,k])))
    after:   Z[i] = exp(M[i] - max[k](S[i,k])) * (exp(A[i]) + 1)
    """
    if t.op not in ("add", "maximum", "minimum"):
        return None
    one, *others = map(monomial, t.args)
    exponents = [set(addends(m.exponent)) for m in others]
    shared = [a for a in addends(one.exponent) if all(a in e for e in exponents)]
    frame = list(filter(_is_frame, shared))
    if frame and t.op == "add":
        frame = shared  # c without s, of exp(s + c), is no weight: exp(s) may be too large
    leaving: dict[Term, Fraction] = {}
    for base, power in one.powers.items() if t.op == "add" else ():
        powers = [power, *(m.powers.get(base, Fraction(0)) for m in others)]
        least = min(powers, key=abs)
        leaves = (T.is_unmasked(base) or least != 1) and not T.is_bracket(base)
        if base.folded and (min(powers) > 0 or max(powers) < 0) and leaves:
            leaving[base] = least
    # Over nothing a divisor is 0 with what it divides: it must not stay where that is gone.
    if not frame and not any(power > 0 for power in leaving.values()):
        return None
    moved = [without_powers(a, leaving) for a in t.args]
    common = [T.power_of(base, least) for base, least in leaving.items()]
    if frame:
        common += exponentials_of(t.args[0], frame)
        moved = [T.mul(a, T.exp(T.neg(T.add(*frame)))) for a in moved]
    return T.mul(*common, T.add(*moved) if t.op == "add" else T.function(t.op, *moved))


def _is_frame(t: Term) -> bool:
    """True if lifting splits off this exponent: it holds an aggregate, or a maximum as a factor."""
    return bool(t.folded) or any(f.op == "maximum" for f in factors(t))


# A sum over the index of which some addends are of another kind becomes two sums.
_SPLIT = "sum[k if c](x * (a + y)) = sum[k if c](x * a) + sum[k if c](x * y)"


def _result_of(bindings: Bindings) -> Term | None:
    """Return the earlier results that an addend a is multiplied with, if they leave the sum."""
    (bound,), fold = bindings.folds["k"]
    name, extent = bound.attr
    a = bindings.terms["a"]
    if extent not in a.folded:
        return None
    results = [f for f in parts_of("mul", a) if _is_result(f, name, extent)]
    if not results:
        return None
    _, (condition, body) = T.open_fold(fold)
    elements = (f for f in factors(body) if name in f.free and a not in addends(f))
    alone = T.fold("sum", (bound,), condition, T.mul(*elements, a))
    return T.mul(*results) if set(results).issubset(leaving(alone)) else None


def _addend(bindings: Bindings) -> Term:
    """Return an addend by itself: results are factors of it, and need be none of a sum of several,
    which they would not leave."""
    return bindings.terms["a"]


def _is_mixed(bindings: Bindings) -> bool:
    """True if an addend of a sum in an addend is of a result, and the sum is free of results once
    they have left."""
    (bound,), fold = bindings.folds["k"]
    _, (_, body) = T.open_fold(fold)
    return _result_of(bindings) is not None and not _keeps_result(body, *bound.attr)


def _is_result(f: Term, name: str, extent: str) -> bool:
    """True if f is made of folds over an extent and does not vary with the index; not if it is read
    at a position that a fold has found, an anchor of distances."""
    is_anchor = any(s.op == "read" and bool(s.folded) for s in T.subterms(f))
    return name not in f.free and extent in f.folded and not is_anchor


def _is_separable(bindings: Bindings) -> bool:
    """True if an addend has a result as a factor, and the sum has none once those have left.
    A distance from a result beside another distance stays: multiplied out they would cancel."""
    if _result_of(bindings) is None:
        return False
    (bound,), fold = bindings.folds["k"]
    name, extent = bound.attr
    _, (_, body) = T.open_fold(fold)
    powers = map(T.base_and_power, factors(body))
    distances = [(f, n) for f, n in powers if _is_distance(f, name, extent)]
    degree = sum(n for _, n in distances)
    if _keeps_result(body, name, extent):
        return False
    return degree <= 1 or not any(bindings.terms["a"] in addends(f) for f, _ in distances)


def _keeps_result(t: Term, name: str, extent: str) -> bool:
    """True if a result over the extent does not leave the index, so that a pass stays between them
    anyway. Inner sums may be exchanged."""
    if name not in t.free or extent not in t.folded:
        return False
    if t.op in ("add", "mul", "exp") or (t.op == "pow" and t.attr.denominator == 1):
        return any(_keeps_result(part, name, extent) for part in t.args)
    return not (t.op == "fold" and t.attr.monoid == "sum")


def _is_distance(f: Term, name: str, extent: str) -> bool:
    parts = addends(f)
    return any(_is_result(a, name, extent) for a in parts) and any(name in a.free for a in parts)


def _weight(bindings: Bindings) -> tuple[Term, ...]:
    """Return the exponent of an addend and its condition."""
    a = bindings.terms["a"]
    condition = T.conjunction(*(f.args[0] for f in factors(a) if T.is_bracket(f)))
    return exponent_of(a), condition


def _is_weighted(bindings: Bindings) -> bool:
    """True if an addend has an exponential weight that varies with the index. A number that the
    exponent of the whole adds up is a value."""
    (bound,), fold = bindings.folds["k"]
    _, (_, body) = T.open_fold(fold)
    a = bindings.terms["a"]
    is_value = is_power_in(exponent_of(body), exponent_of(a))
    return weight_of(a, bound.name) is not T.ZERO and not is_value


results.add(
    *equations(
        f"""
        # A sum in an addend in which earlier results are mixed is multiplied out.
        distribute_results:
            sum[k if c](x * (z * (a + y) + w)) = sum[k if c](x * (z * a + z * y + w))
            needs z finite if there, worth a is mixed with results

        # A sum in which earlier results over the index are mixed becomes sums for each of them.
        separate_results: {_SPLIT}  needs x finite if there, worth a is of one result

        # A sum of differently weighted terms is a sum of sums, one for each weight.
        split_weights: {_SPLIT}  needs x finite if there, worth a is of one weight
        """,
        a_is_mixed_with_results=Guard(_is_mixed),
        a_is_of_one_result=Guard(_is_separable, _addend),
        a_is_of_one_weight=Guard(_is_weighted, _weight),
    )
)


quotients = RuleSet("quotients", "what sums and their divisors have in common cancels")


@quotients.procedure
def factor_number(t: Term) -> Term | None:
    """The number that the addends of a factor share stands before the product.

    So a sum meets its multiples: p * (2 * p) is a square.

    Law:     `x * (c * a + c * b) = c * x * (a + b)`
    Claims:  distributivity
    Needs:   c is a number
    before:  A[i] = X[i] * (2 * Y[i] + 6 * Z[i])
    after:   A[i] = 2 * X[i] * (Y[i] + 3 * Z[i])
    """
    if t.op != "mul":
        return None
    numbers = [common_number(f) for f in t.args]
    if all(number == 1 for number, _ in numbers):
        return None
    return T.mul(*(x for number, f in numbers for x in (T.const(number, t.kind), f)))


@quotients.procedure
def share_filter(t: Term) -> Term | None:
    """Let conditions that do not vary leave the filter of a sum that then meets its divisor.

    Law:     `sum[k if c and d](x) = c * sum[k if d](x)`
    Claims:  filter_bracket, hoist_factor
    Needs:   c is free of k, and the sum is divided by that without c
    before:  A[i] = sum[k if 0 < k and Y[i] < 1](X[i,k]) / sum[k if 0 < k](X[i,k])
    after:   A[i] = (Y[i] < 1) * sum[k if 0 < k](X[i,k]) / sum[k if 0 < k](X[i,k])
    """
    parts = t.args if t.op == "mul" else ()
    divisors = [f.args[0] for f in parts if f.op == "pow" and f.attr < 0]
    divisors = [z for z in divisors if z.op == "fold"]
    for f in parts if divisors else ():
        base, power = T.base_and_power(f)
        if base.op != "fold" or base.attr.monoid != "sum" or power < 0:
            continue
        opened, (condition, body) = T.open_fold(base)
        fixed = frozenset(c for c in T.conjuncts(condition) if c.free <= base.free)
        for total in divisors if fixed else ():
            left = fixed - frozenset(T.conjuncts(total.args[0]))
            staying = (c for c in T.conjuncts(condition) if c not in left)
            if left and T.fold("sum", opened, T.conjunction(*staying), body) is total:
                bracket = T.bracket(T.conjunction(*left))
                return T.mul(*(g for g in t.args if g is not f), bracket, T.power_of(total, power))
    return None


@quotients.procedure
def divide_addends(t: Term) -> Term | None:
    """Divide the addends of a sum in which a divisor cancels; the others stay together.

    Law:     `(a * p + b) / p = a + b / p`
    Claims:  distributivity
    Needs:   an addend is divided without rest, or the divisor is over a set, and mostly cancels
    before:  A[i] = (X[i] * Y[i] + Z[i]) / Y[i]
    after:   A[i] = X[i] * Y[i] / Y[i] + Z[i] / Y[i]
    """
    if t.op != "mul":
        return None
    for inverse in (f for f in t.args if f.op == "pow" and f.attr < 0):
        divisor, least = inverse.args[0], 0 if inverse.folded else -inverse.attr
        for f in (f for f in t.args if f.op == "add"):
            powers = [dict(map(T.base_and_power, factors(a))).get(divisor, -1) for a in f.args]
            divided = [a for a, n in zip(f.args, powers, strict=True) if n >= least]
            if divided:
                undivided = T.add(T.ZERO, *(a for a in f.args if a not in divided))
                unchanged = (g for g in t.args if g is not f and g is not inverse)
                quotients = (T.mul(inverse, a) for a in (*divided, undivided))
                return T.mul(*unchanged, T.add(*quotients))
    return None


def _are_out_of_order(bindings: Bindings) -> bool:
    """True if the extent of the inner sum comes before that of the outer one."""
    (_, outer), (_, inner) = bindings.folds["k"], bindings.folds["j"]
    return bool(inner.attr.extents < outer.attr.extents)


quotients.add(
    *equations(
        """
        # Sums that follow one another directly are taken in one fixed order; a filter goes with the
        # innermost index that it names.
        reorder_sums: sum[k if c](sum[j if d and e](x)) = sum[j if d](sum[k if c and e](x))
            needs d free of k, worth their extents are out of order
        """,
        their_extents_are_out_of_order=Guard(_are_out_of_order),
    )
)
