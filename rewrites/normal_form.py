"""The normal form: what does not vary with a fold's index leaves the fold.

An earlier result then meets its inverse outside and cancels in the ring: the naive, the
safe and the lazy softmax become one object, a quotient of two plain sums, and no maximum
is left. Every rule is exact wherever the source is finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from monocomp import terms as T
from monocomp.equations import Equations
from monocomp.rewrites.sigmoids import sigmoids
from monocomp.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.emptiness import Product
from monocomp.terms.monomials import (
    addends,
    beside_weight,
    common_number,
    content,
    exponent_of,
    factors,
    monomial,
    primitive,
    without_exponent,
    without_powers,
)

normal_form = RuleSet(
    "normal_form", "what does not vary with a fold's index leaves the fold", list(sigmoids.rules)
)


def _is_fold(t: Term, *names: str) -> bool:
    return t.op == "fold" and len(t.attr.indices) == 1 and t.attr.monoid in names


def _opened(t: Term) -> tuple[Term, str, Term, Term]:
    """(index, its name, condition, body) of a fold over one index."""
    (bound,), (condition, body) = T.open_fold(t)
    return bound, bound.attr[0], condition, body


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
    if new == bodies:
        return None
    return T.refold(t, condition, *new, opened=opened)


@normal_form.rule
def assume_bracket(t: Term) -> Term | None:
    """Beside a condition it holds: elsewhere the product is 0.

    What is read at a computed place stays guarded.

    Law:     [c] * f([c]) = [c] * f(1)
    Claims:  brackets
    before:  A[i] = (0 < M[i]) * (X[i] - (0 < M[i]) * Y[i]) ** 2
    after:   A[i] = (0 < M[i]) * (X[i] - Y[i]) ** 2
    """
    brackets = [f for f in factors(t) if T.is_bracket(f)]
    if not brackets:
        return None
    known = frozenset(c for f in brackets for c in T.conjuncts(f.args[0]))
    return T.mul(*brackets, *(_assume(f, known, guarded=False) for f in factors(t)))


def _assume(t: Term, known: frozenset[Term], guarded: bool = True) -> Term:
    """A term where the conditions hold. If nothing else guards it, a read at a computed place
    keeps its guard."""
    if t.op == "where" and not guarded and _reads_computed(t):
        return t
    if t.kind == "bool":
        return T.conjunction(*(c for c in T.conjuncts(t) if c not in known))
    if T.is_bracket(t):
        return T.rebuild(t, (_assume(t.args[0], known, guarded),))
    if t.op in ("mul", "add", "where", "exp", "pow", "log"):
        return T.map_children(t, lambda a: _assume(a, known, guarded))
    return t


@normal_form.rule
def common_result(t: Term) -> Term | None:
    """An earlier result that all addends are multiplied with, or have in their exponents,
    leaves them.

    Outside it meets the frame in which they were added, so that scaled numbers which were
    joined are plain ones again.

    Law:     exp(a + c) * p * x + exp(b + c) * p * y = exp(c) * p * (exp(a) * x + exp(b) * y)
    Claims:  distributivity, exponentials, scaling
    Needs:   c and p hold a fold, or c a maximum; of a maximum or minimum only exp(c) leaves; p
             is no truth value, is not infinite of nothing, and is a divisor only beside exp(c).
             What else the exponents of a sum have in common leaves with c, which it may be the
             frame of
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
        # Over nothing a divisor is 0 with the weight: it must not stay where that is gone.
        is_shared = min(powers) > 0 or (frame and max(powers) < 0)
        stays = T.is_bracket(base) or _may_be_of_nothing(base, T.Product([]))
        if base.folded and is_shared and not stays:
            leaving[base] = min(powers, key=abs)
    if not frame and not leaving:
        return None
    moved = [without_powers(a, leaving) for a in t.args]
    common = [T.power_of(base, least) for base, least in leaving.items()]
    if frame:
        exponent = T.add(*frame)
        common.append(T.exp(exponent))
        moved = [T.mul(a, T.exp(T.neg(exponent))) for a in moved]
    return T.mul(*common, T.add(*moved) if t.op == "add" else T.function(t.op, *moved))


def _is_frame(t: Term) -> bool:
    """Is this an exponent that lifting takes numbers apart by: an aggregate or a maximum?"""
    return bool(t.folded) or any(f.op == "maximum" for f in factors(t))


@normal_form.rule
def separate_results(t: Term) -> Term | None:
    """A sum in which earlier results over the index are mixed becomes sums without them.

    Every element is brought to the form of a sum of products H * x, with H an earlier
    result and x free of results; parts that need no result stay together.

    Law:     sum(H * x + G * y) = H * sum(x) + G * sum(y)
    Claims:  distributivity, interchange, exponentials, binomial theorem, addition theorems,
             brackets
    Needs:   the results stand in sums, products, whole powers up to 8, exponents, cos or sin;
             products and powers of distances from results stay: multiplied out they would cancel;
             what is multiplied with a sum is finite if what it reads is, and is not of nothing
    before:  A[i] = sum[k]((X[i,k] + max[l](X[i,l])) * Y[k])
    after:   A[i] = sum[k](X[i,k] * Y[k]) + max[k](X[i,k]) * sum[k](Y[k])
    """
    if not _is_fold(t, "sum") or t.kind != "float":
        return None
    bound, _name, condition, body = _opened(t)
    groups = _separated(body, bound, condition)
    if list(groups) == [T.ONE]:
        return None
    return T.add(
        *(
            T.mul(result, T.fold("sum", (bound,), condition, rest))
            for result, rest in groups.items()
        )
    )


def _separated(t: Term, bound: Term, condition: Term) -> dict[Term, Term]:
    """t as a sum of result * rest, by result: a product of results of folds over the extent of
    the bound index, free of it."""
    name, extent = bound.attr
    known = frozenset(T.conjuncts(condition))

    def is_result(f: Term) -> bool:
        return name not in f.free and extent in f.folded and not _is_element_at_result(f)

    def is_distance(f: Term) -> bool:
        parts = addends(T.base_and_power(f)[0])
        return any(map(is_result, parts)) and any(name in a.free for a in parts)

    def are_distances(parts: Iterable[Term]) -> list[Term]:
        found = [f for f in parts if is_distance(f)]
        degree = sum(T.base_and_power(f)[1] for f in found)
        return found if degree > 1 else []

    def visit(s: Term) -> dict[Term, Term]:
        if extent not in s.folded:
            return {T.ONE: s}
        if is_result(s):
            return {s: T.const(1, s.kind)}
        distances = are_distances(factors(s))
        match s.op:
            case "add":
                return _collect(pair for a in s.args for pair in visit(a).items())
            case "mul":
                parts = [{T.ONE: f} if f in distances else visit(f) for f in s.args]
                elements = T.Product(s.args, known=known)
                sums = [f for f, part in zip(s.args, parts, strict=True) if len(part) > 1]
                if sums and any(
                    _may_be_of_nothing(result, elements) for part in parts for result in part
                ):
                    return {T.ONE: s}
                others = [f for f in s.args if [f] != sums] if sums else []
                if not all(map(T.is_finite_if_there, others)):
                    return {T.ONE: s}  # inf * (a - b) is a number, inf * a - inf * b is none
                found = {T.ONE: T.const(1, s.kind)}
                for part in parts:
                    found = _product(found, part)
                return found
            case "pow" if distances:
                return {T.ONE: s}
            case "cast":
                conditions = T.conjuncts(s.args[0])
                fixed = [c for c in conditions if is_result(c)]
                moving = [c for c in conditions if not is_result(c)]
                return {T.bracket(T.conjunction(*fixed)): T.bracket(T.conjunction(*moving))}
            case "exp":
                fixed = [a for a in addends(s.args[0]) if is_result(a)]
                moving = [a for a in addends(s.args[0]) if not is_result(a)]
                return {T.exp(T.add(T.ZERO, *fixed)): T.exp(T.add(T.ZERO, *moving))}
            case "pow" if s.attr.denominator == 1:
                groups = visit(s.args[0])
                if len(groups) == 1:
                    ((result, rest),) = groups.items()
                    return {T.power_of(result, s.attr): T.power_of(rest, s.attr)}
                if 2 <= s.attr <= 8:
                    found = groups
                    for _ in range(int(s.attr) - 1):
                        found = _product(found, groups)
                    return found
            case "where" if not any(map(is_result, T.subterms(s.args[0]))):
                condition, a, b = s.args
                return _collect(
                    (result, T.mul(T.bracket(c), rest))
                    for c, branch in ((condition, a), (T.negate(condition), b))
                    for result, rest in visit(branch).items()
                )
            case "cos" | "sin":
                fixed = [a for a in addends(s.args[0]) if is_result(a)]
                if fixed:
                    r, x = T.add(*fixed), T.add(*(a for a in addends(s.args[0]) if a not in fixed))
                    (cos_r, sin_r), (cos_x, sin_x) = (
                        (T.function("cos", y), T.function("sin", y)) for y in (r, x)
                    )
                    if s.op == "cos":
                        return {cos_r: cos_x, sin_r: T.neg(sin_x)}
                    return {cos_r: sin_x, sin_r: cos_x}
        return {T.ONE: s}

    groups = visit(t)
    return {T.ONE: t} if list(groups) == [T.ONE] else groups


def _is_element_at_result(t: Term) -> bool:
    """Is t read at a place that a fold has found, an anchor of distances?"""
    return any(s.op == "read" and bool(s.folded) for s in T.subterms(t))


def _may_be_of_nothing(result: Term, elements: Product) -> bool:
    """May a result be infinite because it is of nothing, where the elements that it multiplies
    are not? Infinity times a sum is not the sum of infinities, where it is 0."""
    match result.op:
        case "fold" if result.attr.monoid in ("max", "min") and result.kind == "float":
            sides = (T.NEG_INF, result) if result.attr.monoid == "max" else (result, T.INF)
            return not (T.has_element(result) or elements.says(T.compare("<", *sides)))
        case "log":
            (z,) = result.args
            folds = (f for f in factors(z) if f.op == "fold")
            return not (all(map(T.has_element, folds)) or elements.says(T.is_there(z)))
        case "add" | "mul" | "abs" | "maximum" | "minimum" | "relu":
            return any(_may_be_of_nothing(part, elements) for part in result.args)
        case "pow":
            return result.attr > 0 and _may_be_of_nothing(result.args[0], elements)
    return False


def _collect(pairs: Iterable[tuple[Term, Term]]) -> dict[Term, Term]:
    found: dict[Term, Term] = {}
    for result, rest in pairs:
        found[result] = T.add(found[result], rest) if result in found else rest
    return found


def _product(left: dict[Term, Term], right: dict[Term, Term]) -> dict[Term, Term]:
    return _collect((T.mul(a, b), T.mul(x, y)) for a, x in left.items() for b, y in right.items())


@normal_form.rule
def split_weights(t: Term) -> Term | None:
    """A sum of differently weighted terms is a sum of sums, one for each weight.

    Law:     sum(a + b) = sum(a) + sum(b)
    Claims:  interchange
    Needs:   an addend with an exponential weight; a difference such as x - mean stays whole
    before:  A[i] = sum[k](exp(S[i,k]) * X[i,k] + exp(R[i,k]))
    after:   A[i] = sum[k](exp(S[i,k]) * X[i,k]) + sum[k](exp(R[i,k]))
    """
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    groups: dict[tuple[Term, Term], list[Term]] = {}
    for f in factors(body):
        if f.op != "add" or not any(_weight(a, name) is not T.ZERO for a in f.args):
            continue
        for a in f.args:
            groups.setdefault((exponent_of(a), _brackets(a)), []).append(a)
        if len(groups) == 1:
            return None
        others = [g for g in factors(body) if g is not f]
        return T.add(
            *(
                T.fold("sum", (bound,), condition, T.mul(*others, T.add(*group)))
                for group in groups.values()
            )
        )
    return None


@normal_form.rule
def factor_weight(t: Term) -> Term | None:
    """A weight that all addends of a sum's elements have is one factor of them.

    Law:     sum(w * a + w * b) = sum(w * (a + b))
    Claims:  distributivity, exponentials
    Needs:   the exponents are the same: the quotient of two might be infinite
    before:  A[i] = sum[k](exp(S[i,k]) * X[k] - exp(S[i,k]) * Y[k])
    after:   A[i] = sum[k](exp(S[i,k]) * (X[k] - Y[k]))
    """
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    for f in factors(body):
        weights = {exponent_of(a) for a in f.args} if f.op == "add" else set()
        if len(weights) != 1 or name not in next(iter(weights)).free:
            continue
        (weight,) = weights
        rest = T.add(*(without_exponent(a) for a in f.args))
        others = (g for g in factors(body) if g is not f)
        return T.fold("sum", (bound,), condition, T.mul(*others, T.exp(weight), rest))
    return None


def _weight(t: Term, name: str) -> Term:
    """The part of the exponent that varies with the index."""
    return T.add(T.ZERO, *(a for a in addends(exponent_of(t)) if name in a.free))


def _brackets(t: Term) -> Term:
    return T.conjunction(*(f.args[0] for f in factors(t) if T.is_bracket(f)))


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
    values: list[Term] = []
    for f in factors(body):
        mask, value = (f.args[0], one) if T.is_bracket(f) else _unmasked(f, zero)
        masks.append(mask)
        values.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    value = T.mul(one, *values)
    known = frozenset(T.conjuncts(condition))
    needed = (c for m in masks for c in T.conjuncts(m) if not _says(value, c, known))
    return T.fold("sum", (bound,), T.conjunction(condition, *needed), value)


@normal_form.rule
def weigh_choice(t: Term) -> Term | None:
    """What divides an exponential divides it where that is chosen: so their scales cancel.

    Law:     where(c, x, 0) / z = [c] * x / z
    Claims:  units
    Needs:   an exponential in x, and another factor, or divisor, that may be scaled as well
    before:  A[i] = where(B[i] > 0, exp(S[i]), 0) / Z[i]
    after:   A[i] = (0 < B[i]) * exp(S[i]) / Z[i]
    """
    for f in factors(t):
        condition, x = _unmasked(f, T.ZERO)
        others = [g for g in factors(t) if g is not f]
        may_be_scaled = any(g.op == "exp" or T.base_and_power(g)[1] < 0 for g in others)
        if condition is not T.TRUE and may_be_scaled and exponent_of(x) is not T.ZERO:
            return T.mul(T.bracket(condition), x, *others)
    return None


def _says(value: Term, condition: Term, known: frozenset[Term]) -> bool:
    """Is a product 0 where the condition fails, if other conditions hold?"""
    powers = [T.base_and_power(f) for f in factors(value)]
    over = [base for base, power in powers if power > 0]
    under = [base for base, power in powers if power < 0]
    return Product(over, under, known).says(condition)


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
    values: list[Term] = []
    for a in addends(body):
        mask, value = _unmasked(a, unit)
        masks.append(mask)
        values.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    return T.fold(t.attr.monoid, (bound,), T.conjunction(condition, *masks), T.add(*values))


@normal_form.rule
def hoist_factor(t: Term) -> Term | None:
    """A factor that does not vary with the index leaves the sum.

    What it reads at a computed place stays guarded by the filter.

    Law:     sum(a * x) = a * sum(x)
    Claims:  distributivity, exponentials
    Needs:   a positive factor, where the elements are divided by what may be of nothing: 0 over
             that is 0; of an exponent what is a number where a filter may leave no element
    before:  A[i] = sum[k](exp(S[i,k] - M[i]) * X[k] / Z[i])
    after:   A[i] = exp(-M[i]) / Z[i] * sum[k](exp(S[i,k]) * X[k])
    """
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    outside: list[Term] = []
    inside: list[Term] = []

    def leaves(a: Term) -> bool:
        is_number = T.is_finite_if_read(a) or bool(a.folded)
        return name not in a.free and (is_number or T.has_element(t))

    for factor in factors(body):
        if factor.op == "exp" and name in factor.free:
            fixed = [a for a in addends(factor.args[0]) if leaves(a)]
            moving = [a for a in addends(factor.args[0]) if a not in fixed]
            outside.append(T.exp(T.add(T.ZERO, *fixed)))
            inside.append(T.exp(T.add(*moving)))
        elif name in factor.free:
            number, factor = primitive(factor, name)
            outside.append(T.const(number, body.kind))
            inside.append(factor)
        elif factor.op == "const" and isinstance(factor.attr, float):  # 0 elements times infinity
            inside.append(factor)
        else:
            outside.append(factor)
    if any(map(_may_divide_by_nothing, inside)):
        inside += [f for f in outside if not T.is_positive(f)]
        outside = list(filter(T.is_positive, outside))
    if not inside and condition is T.TRUE:
        return T.mul(body, T.extent_of(bound.attr[1]))
    one = T.const(1, body.kind)
    common = T.mul(one, *outside)
    if common is one:
        return None
    guard = T.conjunction(*(c for c in T.conjuncts(condition) if name not in c.free))
    if _reads_computed(common):
        common = T.where(guard, common, T.const(0, body.kind))
    return T.construct("mul", common, T.fold("sum", (bound,), condition, T.mul(one, *inside)))


def _may_divide_by_nothing(factor: Term) -> bool:
    base, power = T.base_and_power(factor)
    return power < 0 and (T.is_bracket(base) or T.may_be_empty(base))


def _reads_computed(t: Term) -> bool:
    """Is there a read that may leave its tensor?"""
    return any(s.op == "read" and any(a.op != "index" for a in s.args) for s in T.subterms(t))


@normal_form.rule
def hoist_addend(t: Term) -> Term | None:
    """An addend that does not vary with the index leaves a maximum or minimum.

    Law:     max(a + x) = a + max(x), because addition is monotone
    Claims:  translation
    Needs:   an element, as -inf + inf is NaN, and the maximum of no ints is the least of all; or
             addends that are finite
    before:  M[i] = max[k](S[i,k] + B[i])
    after:   M[i] = B[i] + max[k](S[i,k])
    """
    if not _is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = _opened(t)
    outside = [a for a in addends(body) if name not in a.free]
    inside = [a for a in addends(body) if name in a.free]
    if not outside or not inside:
        return None
    if not T.has_element(t) and not (t.kind == "float" and all(map(T.is_finite, outside))):
        return None
    moving = T.add(T.const(0, body.kind), *inside)
    return T.construct("add", *outside, T.fold(t.attr.monoid, (bound,), condition, moving))


@normal_form.rule
def hoist_positive_factor(t: Term) -> Term | None:
    """A positive factor leaves a maximum or minimum; a negative number turns it round.

    Law:     max(a * x) = a * max(x) for a > 0, and max(-x) = -min(x)
    Claims:  scaling
    Needs:   the factor is positive, and finite if what it reads is; or not negative, where there is
             an element; an aggregate or what is made of exponentials does not leave values that are
             weighted with exponentials, which it may be the scale of
    before:  M[i] = max[k](-2 * S[i,k] / sqrt(|k|))
    after:   M[i] = -2 * min[k](S[i,k]) / sqrt(|k|)
    """
    if not _is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = _opened(t)
    number, rest = T.split_coefficient(body)
    if rest is None or not (t.kind == "float" or T.has_element(t)):
        return None
    if isinstance(number, float):  # infinite: 0 times that is none
        return None
    outside = [f for f in factors(rest) if name not in f.free and _leaves_extremum(f, t)]
    inside = [f for f in factors(rest) if f not in outside]
    known = condition
    brackets = [f.args[0] for f in inside if T.is_bracket(f)]
    if t.attr.monoid == "max" and T.has_element(t):  # see extremum_of_exponentials
        known = T.conjunction(condition, *brackets)
    outside, inside = beside_weight(outside, inside, T.conjuncts(known))
    monoid = t.attr.monoid
    if number == 1 and not outside:
        return None
    if number < 0:
        monoid = "min" if monoid == "max" else "max"
    moving = T.mul(T.const(1, body.kind), *inside)
    folded = T.fold(monoid, (bound,), condition, moving)
    return T.construct("mul", T.const(number, body.kind), *outside, folded)


def _leaves_extremum(factor: Term, t: Term) -> bool:
    """Is max(a x) = a max(x), also where a is 0? Over nothing that would be 0 and not -inf. Where a
    is infinite, because it is divided by a sum over nothing, x is 0 unless max(x) is not."""
    if T.is_positive(factor) and T.is_finite_if_read(factor):
        return True
    divides = factor.op == "pow" and factor.attr < 0 and T.is_weight(factor.args[0])
    is_finite = T.is_finite(factor) and T.is_nonnegative(factor)
    is_sum = T.is_finite_if_read(factor) and T.is_weight(factor)
    is_scale = factor.op == "exp" and (
        not factor.folded
        or T.is_weight(t.args[1])
        or T.is_below_infinity(factor.args[0])
        or all(map(_is_finite_or_missing, addends(factor.args[0])))
    )
    return T.has_element(t) and (divides or is_finite or is_sum or is_scale)


def _is_finite_or_missing(addend: Term) -> bool:
    """Is it finite, or -inf over nothing, if what is read is finite?"""
    number, m = T.split_coefficient(addend)
    if m is None or m.op != "fold" or m.attr.monoid != ("max" if number > 0 else "min"):
        return T.is_finite_if_read(addend)
    return T.is_finite_if_read(m.args[1])


@normal_form.rule
def merge_weighted_sums(t: Term) -> Term | None:
    """Sums of one weight that are only added are one sum.

    Law:     c * sum(a) + c * sum(b) = c * sum(a + b)
    Claims:  distributivity, interchange
    Needs:   the same domain, weight and coefficient, up to what varies with no index
    before:  A[i] = sum[k](exp(S[i,k]) * X[k]) - 2 * sum[k](exp(S[i,k]) * Y[k])
    after:   A[i] = sum[k](exp(S[i,k]) * (X[k] - 2 * Y[k]))
    """
    if t.op != "add":
        return None
    groups: dict[tuple[Any, ...], list[tuple[Term, Term]]] = {}
    for a in t.args:
        weighted = [f for f in factors(a) if _is_weighted_sum(f)]
        if len(weighted) != 1:
            continue
        (f,) = weighted
        rest = [g for g in factors(a) if g is not f]
        numbers = [g for g in rest if not g.free and not g.folded]
        others = T.mul(T.ONE, *(g for g in rest if g not in numbers))
        number = T.mul(T.ONE, *numbers)
        _, (_, body) = T.open_as(f, ("@0",))
        key = (others, *T.domain_of(f), _weight(body, "@0"))
        groups.setdefault(key, []).append((a, number))
    for (others, _, condition, weight), members in groups.items():
        if len(members) < 2:
            continue
        parts = []
        for a, factor in members:
            (f,) = (f for f in factors(a) if _is_weighted_sum(f))
            opened, (_, body) = T.open_as(f, ("@0",))
            parts.append(T.mul(factor, body, T.exp(T.neg(weight))))
        merged = T.fold("sum", opened, condition, T.mul(T.exp(weight), T.add(*parts)))
        gone = [a for a, _ in members]
        return T.add(*(a for a in t.args if a not in gone), T.mul(others, merged))
    return None


def _is_weighted_sum(t: Term) -> bool:
    if not _is_fold(t, "sum"):
        return False
    _, name, _, body = _opened(t)
    return _weight(body, name) is not T.ZERO


@normal_form.choice
def pick_point(program: Equations) -> Choice | None:
    """A sum over the one index that equals a given place is the element there.

    Law:     sum[k if k = a](f(k)) = f(a) for a place a in the range of k, else 0
    Claims:  one point
    Needs:   the sum stands in no quotient by what may be 0 nor beside an exponential of an
             aggregate, where a 0 would be no sum over nothing, and in no logarithm
    before:  A[i] = max[k](X[i,k]) + sum[k if k == i - 1](X[i,k])
    after:   A[i] = max[k](X[i,k]) + where(0 <= i - 1 and i - 1 < |k|, X[i,i - 1], 0)
    """
    terms = list(T.subterms(*(e.body for e in program.equations)))
    in_quotients = set(T.subterms(*filter(_is_scaled, terms)))
    products = [t for t in terms if t.op == "mul"]
    for t in (*products, *terms):  # a factor that is infinite must not meet the 0
        for f in factors(t):
            picked = _picked(f) if f not in in_quotients else None
            if picked is not None:
                others = [g for g in factors(t) if g is not f]
                return Choice.replacing(t, _within(picked, others), program)
    return None


def _within(picked: Term, others: Sequence[Term]) -> Term:
    """A product with an element, or 0 where that is not there."""
    if picked.op != "where":
        return T.mul(*others, picked)
    condition, value, unit = picked.args
    return T.where(condition, T.mul(T.const(1, value.kind), *others, value), unit)


def _is_scaled(t: Term) -> bool:
    """Is t divided by what may be 0, or multiplied with an exponential of an aggregate, or a
    logarithm?"""
    if t.op == "log":
        return True
    divisors = (f.args[0] for f in factors(t) if f.op == "pow" and f.attr < 0)
    scales = (f.args[0] for f in factors(t) if f.op == "exp")
    return not all(map(T.is_positive, divisors)) or any(bool(e.folded) for e in scales)


def _picked(t: Term) -> Term | None:
    if not _is_fold(t, "sum"):
        return None
    bound, name, condition, body = _opened(t)
    for c in T.conjuncts(condition):
        place = _solved(c, bound)
        if place is None:
            continue
        here = {name: place}
        others = (T.substitute(o, here) for o in T.conjuncts(condition) if o is not c)
        inside = T.TRUE
        if place.op == "index" and place.attr[1] != bound.attr[1]:
            return None  # a read with a plain index is never out of range
        if place.op != "index":
            inside = T.conjunction(
                T.compare("<=", T.const(0), place),
                T.compare("<", place, T.extent_of(bound.attr[1])),
            )
        unit = T.const(0, body.kind)
        return T.where(T.conjunction(inside, *others), T.substitute(body, here), unit)
    return None


def _solved(c: Term, bound: Term) -> Term | None:
    """a in a condition that says bound = a."""
    if c.op != "compare" or c.attr != "==" or c.args[0].kind != "int":
        return None
    difference = T.sub(c.args[1], c.args[0])
    for sign in (1, -1):
        rest = T.sub(difference, T.mul(T.const(sign), bound))
        if bound.attr[0] not in rest.free:
            return T.mul(T.const(-sign), rest)
    return None


@normal_form.choice
def extremum_of_exponentials(program: Equations) -> Choice | None:
    """The largest exponential is the exponential of the largest exponent.

    Over nothing it is -inf, and not exp(-inf) = 0. What a condition leaves out is exp(-inf). Of
    exponentials that are exponents themselves the largest stays as it is, for what is subtracted
    from them must be one of them to the last digit.

    Law:     max(exp(x)) = exp(max(x)), because exp is monotone
    Claims:  increasing functions, brackets
    Needs:   an element, of a maximum, where a condition leaves some out; exp(x) is in no exponent
    before:  M[i] = max[k](exp(S[i,k]))
    after:   M[i] = exp(max[k](S[i,k]))
    """
    terms = list(T.subterms(*(e.body for e in program.equations)))
    parts = (f for e in _exponents(terms) for a in addends(e) for f in factors(a))
    nested = {f for f in parts if f.op == "exp"}
    for t in terms:
        found = _exponential_of_extremum(t, nested)
        if found is not None:
            return Choice.replacing(t, found, program)
    return None


def _exponents(terms: Iterable[Term]) -> Iterator[Term]:
    """The exponents of exponentials and of folds in SE."""
    for t in terms:
        if t.op == "exp":
            yield t.args[0]
        elif t.op == "fold" and t.attr.is_scaled:
            yield t.args[2]


def _exponential_of_extremum(t: Term, nested: Iterable[Term]) -> Term | None:
    """The exponential that an extremum is, unless its elements are `nested`, at any place."""
    if not _is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = _opened(t)
    brackets = [f.args[0] for f in factors(body) if T.is_bracket(f)]
    x = exponent_of(body)
    if without_exponent(body) is not T.bracket(T.conjunction(*brackets)) or x is T.ZERO:
        return None
    if brackets and (t.attr.monoid == "min" or not T.has_element(t)):
        return None
    places = ((e, T.index(place, bound.attr[1])) for e in nested for place in e.free)
    if any(T.substitute(T.exp(x), {name: place}) is e for e, place in places):
        return None
    found = T.exp(T.fold(t.attr.monoid, (bound,), T.conjunction(condition, *brackets), x))
    if t.attr.monoid == "min" or T.has_element(t):
        return found
    count = T.fold("sum", (bound,), condition, T.const(1))
    return T.where(T.compare("<", T.const(0), count), found, T.NEG_INF)


@normal_form.rule
def logarithm_of_extremum(t: Term) -> Term | None:
    """The logarithm or a root of the largest weight is the largest logarithm or root.

    So none of them is 0 before its logarithm is taken. Over nothing the source is no number.

    Law:     log(max(exp(x))) = max(x), because exp is monotone; so is every power of an exponential
    Claims:  increasing functions
    Needs:   elements that are not less than 0, and have an exponential: others are as good
    before:  L[i] = log(max[k](exp(S[i,k]) / Z[k] ** 2))
    after:   L[i] = max[k](S[i,k] - 2 * log(abs(Z[k])))
    """
    is_root = t.op == "pow" and t.attr > 0 and t.attr.denominator > 1
    if not (t.op == "log" or is_root):
        return None
    (x,) = t.args
    if x.op == "where" and x.args[2] is T.NEG_INF and exponent_of(x.args[1]) is not T.ZERO:
        return T.where(x.args[0], T.rebuild(t, x.args[1:2]), T.NEG_INF)
    if not _is_fold(x, "max", "min"):
        return None
    bound, name, condition, body = _opened(x)
    if name not in exponent_of(body).free or not T.is_nonnegative(body):
        return None
    return T.fold(x.attr.monoid, (bound,), condition, T.rebuild(t, (body,)))


@normal_form.rule
def common_factor(t: Term) -> Term | None:
    """What the addends under a power, logarithm, absolute value or relu share leaves it.

    An exponential leaves a root or divisor even if it is that of one addend, as such a sum is
    scaled in the end. It does not leave a positive power or a logarithm, where exp(-x) + 1 has more
    digits than exp(-x) * (1 + exp(x)), nor a relu, which may be 0 where it is infinite.

    Law:     (c * p) ** n = c ** n * p ** n; log(c * p) = log(c) + log(p); f(c * p) = c * f(p)
    Claims:  common factors
    Needs:   c is provably positive, but for whole powers
    before:  A[i] = 1 / (exp(S[i] - B[i]) + exp(-B[i]))
    after:   A[i] = exp(B[i]) / (exp(S[i]) + 1)
    """
    if t.op not in ("pow", "log", "abs", "relu"):
        return None
    whole = t.op == "pow" and t.attr.denominator == 1
    divides = t.op == "log" or (whole and t.attr < 0)
    leads = t.op == "pow" and (not whole or t.attr < 0)
    common, rest = content(t.args[0], positive=not whole, clear=divides, leads=leads)
    if common is T.ONE:
        return None
    match t.op:
        case "pow":
            return T.mul(T.power_of(common, t.attr), T.power_of(rest, t.attr))
        case "log":
            return T.add(T.log(common), T.log(rest))
    return T.mul(common, T.function(t.op, rest))


@normal_form.rule
def leave_logarithm(t: Term) -> Term | None:
    """The exponent of one addend under a logarithm leaves that to meet its opposite.

    Law:     x + log(exp(-x) * a + b) = log(a + exp(x) * b)
    Claims:  common factors
    Needs:   x less than inf; more than -inf as well, if it holds an aggregate
    before:  A[i] = B[i] + log(exp(-B[i]) * S[i] ** 2 + 1)
    after:   A[i] = log(S[i] ** 2 + exp(B[i]))
    """
    if t.op != "add":
        return None
    for a in t.args:
        number, logarithm = T.split_coefficient(a)
        if logarithm is None or logarithm.op != "log":
            continue
        common, rest = content(logarithm.args[0], positive=True)
        found = T.mul(T.const(number, "float"), T.log(common))
        if common is not T.ONE and all(T.neg(b) in t.args for b in addends(found)):
            others = (b for b in t.args if b is not a)
            return T.add(*others, found, T.mul(T.const(number, "float"), T.log(rest)))
    return None


@normal_form.rule
def factor_number(t: Term) -> Term | None:
    """The number that the addends of a factor share stands before the product.

    So a sum meets its multiples: p * (2 * p) is a square.

    Law:     x * (c * a + c * b) = c * x * (a + b)
    Claims:  distributivity
    Needs:   c is a number
    before:  A[i] = X[i] * (2 * Y[i] + 6 * Z[i])
    after:   A[i] = 2 * X[i] * (Y[i] + 3 * Z[i])
    """
    if t.op != "mul":
        return None
    found = [common_number(f) for f in t.args]
    if all(number == 1 for number, _ in found):
        return None
    return T.mul(*(x for number, f in found for x in (T.const(number, t.kind), f)))


@normal_form.rule
def divide_addends(t: Term) -> Term | None:
    """A sum is divided addend by addend where a divisor cancels.

    Law:     (a * p + b) ** n / p ** n = (a + b / p) ** n
    Claims:  distributivity
    Needs:   the divisor is a factor of an addend; if n > 1 it may be over an empty set
    before:  A[i] = (X[i] * Y[i] + Z[i]) / Y[i]
    after:   A[i] = X[i] * Y[i] / Y[i] + Z[i] / Y[i]
    """
    if t.op != "mul":
        return None
    divisors = {f.args[0]: f.attr for f in t.args if f.op == "pow" and f.attr < 0}
    for f in t.args:
        total, power = T.base_and_power(f)
        if total.op == "add" and power.denominator == 1 and power > 0:
            powers = [T.base_and_power(g) for a in total.args for g in factors(a)]
            bases = {base for base, n in powers if n > 0}
            divide = {
                base: n / power
                for base, n in divisors.items()
                if base in bases
                and (n / power).denominator == 1
                # What is under a power has no other divisor, see `content`.
                and (power == 1 or T.may_be_empty(base))
            }
            if divide:
                inverses = [T.power_of(base, n) for base, n in divide.items()]
                gone = [T.power_of(i, power) for i in inverses]
                others = (g for g in t.args if g is not f and g not in gone)
                over = _apart_from_rest(total, set(divide))
                divided = T.add(*(T.mul(*inverses, a) for a in over))
                return T.mul(*others, T.power_of(divided, power))
    return None


def _apart_from_rest(total: Term, divisors: set[Term]) -> list[Term]:
    """The addends; those that have no such factor as one, if a divisor may be 0 of nothing: what
    they would be over it, inf - inf, has no value."""
    rest = [
        a for a in total.args if divisors.isdisjoint(T.base_and_power(f)[0] for f in factors(a))
    ]
    if not any(map(T.may_be_empty, divisors)):
        return list(total.args)
    return [*(a for a in total.args if a not in rest), *([T.add(*rest)] if rest else [])]


@normal_form.rule
def cancel_denominator(t: Term) -> Term | None:
    """Addends over one denominator are joined where that shortens them.

    Law:     a / p + b / p = (a + b) / p; a + b / p = (a * p + b) / p
    Claims:  common denominators
    Needs:   p holds an exponential or an aggregate, and is no sum over nothing: of numbers that
             are read the quotients are as good, and nothing overflows
    before:  A[i] = 1 - exp(X[i]) / (exp(X[i]) + Y[i] ** 2)
    after:   A[i] = Y[i] ** 2 / (exp(X[i]) + Y[i] ** 2)
    """
    if t.op != "add":
        return None
    denominators = dict.fromkeys(
        f for a in t.args for f in factors(a) if f.op == "pow" and f.attr < 0
    )
    for inverse in denominators:
        base = inverse.args[0]
        if base.op != "add" or inverse.attr.denominator != 1 or T.may_be_empty(base):
            continue
        if not base.folded and not any(exponent_of(a) is not T.ZERO for a in base.args):
            continue
        over = [a for a in t.args if inverse in factors(a)]
        others = [a for a in t.args if a not in over]
        numerator = T.add(
            *(T.mul(T.ONE, *(f for f in factors(a) if f is not inverse)) for a in over)
        )
        quotient = _quotient(numerator, base)
        if quotient is not None:
            return T.add(*others, T.mul(quotient, base, inverse))
        for a in others:
            joined = T.add(
                numerator, *(T.mul(a, b) for b in addends(T.power_of(base, -inverse.attr)))
            )
            if inverse.attr == -1 and len(addends(joined)) < len(over) + 1:
                return T.add(*(o for o in others if o is not a), T.mul(joined, inverse))
    return None


def _quotient(numerator: Term, base: Term) -> Term | None:
    """q with numerator = q * base, for a monomial q."""
    if len(addends(numerator)) != len(base.args):
        return None
    for a in addends(numerator):
        q = T.mul(a, T.power_of(base.args[0], -1))
        if T.add(*(T.mul(q, b) for b in base.args)) is numerator:
            return q
    return None


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
    inner, _, inner_condition, inner_body = _opened(body)
    if inner.attr[1] >= outer.attr[1]:
        return None
    parts = [*T.conjuncts(condition), *T.conjuncts(inner_condition)]
    deep = T.conjunction(*(c for c in parts if name in c.free))
    rest = T.conjunction(*(c for c in parts if name not in c.free))
    return T.fold("sum", (inner,), rest, T.fold("sum", (outer,), deep, inner_body))


def normalise(t: Term, rules: RuleSet = normal_form) -> Term:
    """Bring one term to normal form, or to that of other rules."""

    @cache
    def visit(s: Term) -> Term:
        new = T.map_children(s, visit)
        step = rules.first(new)
        return new if step is None else visit(step[1])

    return visit(t)
