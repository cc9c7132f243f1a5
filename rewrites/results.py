"""Earlier results leave the folds that they stand in, and so meet their inverses outside."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from monocomp import terms as T
from monocomp.rewrites.hoisting import may_divide_by_nothing
from monocomp.rewrites.single_folds import is_fold, opened_fold, reads_computed, weight_of
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.emptiness import Product
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    monomial,
    without_powers,
)

results = RuleSet("results", "what earlier results have in common leaves folds")


@results.rule
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


@results.rule
def assume_bracket(t: Term) -> Term | None:
    """Beside a condition it holds: elsewhere the product is 0.

    What is read at a computed position stays guarded.

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
    """A term where the conditions hold. If nothing else guards it, a read at a computed position
    keeps its guard."""
    if t.op == "where" and not guarded and reads_computed(t):
        return t
    if t.kind == "bool":
        return T.conjunction(*(c for c in T.conjuncts(t) if c not in known))
    if T.is_bracket(t):
        return T.rebuild(t, (_assume(t.args[0], known, guarded),))
    if t.op in ("mul", "add", "where", "exp", "pow", "log"):
        return T.map_children(t, lambda a: _assume(a, known, guarded))
    return t


@results.rule
def common_result(t: Term) -> Term | None:
    """An earlier result that all addends are multiplied with, or have in their exponents,
    leaves them.

    Outside it meets the frame in which they were added, so that scaled numbers which were
    joined are plain ones again.

    Law:     exp(a + c) * p * x + exp(b + c) * p * y = exp(c) * p * (exp(a) * x + exp(b) * y)
    Claims:  distributivity, exponentials, scaling
    Needs:   c and p hold a fold, or c a maximum; of a maximum or minimum only exp(c) leaves; p
             is no truth value, is not infinite of nothing, and is a divisor only beside exp(c) or
             another p.
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
        stays = T.is_bracket(base) or _may_be_of_nothing(base, T.Product([]))
        if base.folded and (min(powers) > 0 or max(powers) < 0) and not stays:
            leaving[base] = min(powers, key=abs)
    # Over nothing a divisor is 0 with what it divides: it must not stay where that is gone.
    if not frame and not any(power > 0 for power in leaving.values()):
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


@results.rule
def separate_results(t: Term) -> Term | None:
    """A sum in which earlier results over the index are mixed becomes sums without them.

    Every element is brought to the form of a sum of products H * x, with H an earlier
    result and x free of results; parts that need no result stay together.

    Law:     sum(H * x + G * y) = H * sum(x) + G * sum(y)
    Claims:  distributivity, interchange, exponentials, binomial theorem, addition theorems,
             brackets
    Needs:   the results stand in sums, products, whole powers up to 8, exponents, cos or sin;
             products and powers of distances from results stay: multiplied out they would cancel;
             what is multiplied with a sum is finite if what it reads is, and is not of nothing, as
             are the addends of powers, and of sums either the results or the others
    before:  A[i] = sum[k]((X[i,k] + max[l](X[i,l])) * Y[k])
    after:   A[i] = sum[k](X[i,k] * Y[k]) + max[k](X[i,k]) * sum[k](Y[k])
    """
    if not is_fold(t, "sum") or t.kind != "float":
        return None
    bound, _name, condition, body = opened_fold(t)
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

    def may_be_infinite(addend: Term) -> bool:
        return _may_be_infinite(addend, T.Product([], known=known))

    def visit(s: Term) -> dict[Term, Term]:
        if extent not in s.folded:
            return {T.ONE: s}
        if is_result(s):
            return {s: T.const(1, s.kind)}
        share, rest = T.shares(s, known)
        if share is not T.ONE:  # at most 1 as it stands
            return {result: T.mul(share, x) for result, x in visit(rest).items()}
        distances = are_distances(factors(s))
        match s.op:
            case "add":
                fixed = [a for a in s.args if is_result(a)]
                moving = [a for a in s.args if a not in fixed]
                if any(map(may_be_infinite, fixed)) and any(map(may_be_infinite, moving)):
                    return {T.ONE: s}  # -inf less the logarithm of nothing is -inf
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
                if any(_may_be_infinite(f, elements) for f in others):
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
                if 2 <= s.attr <= 8 and not any(map(may_be_infinite, addends(s.args[0]))):
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
    """Is t read at a position that a fold has found, an anchor of distances?"""
    return any(s.op == "read" and bool(s.folded) for s in T.subterms(t))


def _may_be_infinite(t: Term, elements: Product) -> bool:
    """May t be infinite, where what it reads and the elements that it multiplies are not?"""
    return not T.is_finite_if_there(t) or _may_be_of_nothing(t, elements)


def _may_be_of_nothing(result: Term, elements: Product) -> bool:
    """May a result be infinite because it is of nothing, where the elements that it multiplies
    are not? Infinity times a sum is not the sum of infinities, where it is 0."""
    match result.op:
        case "fold" if result.attr.monoid in ("max", "min"):
            sides = (T.NEG_INF, result) if result.attr.monoid == "max" else (result, T.INF)
            return not (T.has_element(result) or elements.says(T.compare("<", *sides)))
        case "log":
            (z,) = result.args
            folds = (f for f in factors(z) if f.op == "fold")
            return not (all(map(T.has_element, folds)) or elements.says(T.is_there(z)))
        case "mul":
            product = replace(elements, factors=[*elements.factors, *result.args])
            return any(_may_be_of_nothing(part, product) for part in result.args)
        case "add" | "abs" | "maximum" | "minimum" | "relu":
            return any(_may_be_of_nothing(part, elements) for part in result.args)
        case "pow" if result.attr > 0:
            return _may_be_of_nothing(result.args[0], elements)
        case "pow":
            return may_divide_by_nothing(result) and not elements.says(T.is_there(result.args[0]))
    return False


def _collect(pairs: Iterable[tuple[Term, Term]]) -> dict[Term, Term]:
    found: dict[Term, Term] = {}
    for result, rest in pairs:
        found[result] = T.add(found[result], rest) if result in found else rest
    return found


def _product(left: dict[Term, Term], right: dict[Term, Term]) -> dict[Term, Term]:
    """The product of sums. Elements are multiplied as they are written: weights of nothing that
    cancel leave the condition that they are there."""
    pairs = itertools.product(left.items(), right.items())
    return _collect((T.mul(a, b), T.construct("mul", x, y)) for (a, x), (b, y) in pairs)


@results.rule
def split_weights(t: Term) -> Term | None:
    """A sum of differently weighted terms is a sum of sums, one for each weight.

    Law:     sum(a + b) = sum(a) + sum(b)
    Claims:  interchange
    Needs:   an addend with an exponential weight; a difference such as x - mean stays whole;
             finite factors, as inf * (a - b) is a number, and inf * a - inf * b is none
    before:  A[i] = sum[k](exp(S[i,k]) * X[i,k] + exp(R[i,k]))
    after:   A[i] = sum[k](exp(S[i,k]) * X[i,k]) + sum[k](exp(R[i,k]))
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    groups: dict[tuple[Term, Term], list[Term]] = {}
    for f in factors(body):
        if f.op != "add" or not any(weight_of(a, name) is not T.ZERO for a in f.args):
            continue
        for a in f.args:
            groups.setdefault((exponent_of(a), _brackets(a)), []).append(a)
        if len(groups) == 1:
            return None
        others = [g for g in factors(body) if g is not f]
        if not all(map(T.is_finite_if_there, others)):  # inf - inf
            return None
        return T.add(
            *(
                T.fold("sum", (bound,), condition, T.mul(*others, T.add(*group)))
                for group in groups.values()
            )
        )
    return None


def _brackets(t: Term) -> Term:
    return T.conjunction(*(f.args[0] for f in factors(t) if T.is_bracket(f)))
