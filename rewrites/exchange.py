"""Exchange: the order of nested sums of products, chosen by cost.

    sum_k (sum_d a_qd b_kd) c_ke = sum_d a_qd (sum_k b_kd c_ke)

Distributivity lets a chain of contractions be bracketed in any way; with no nonlinearity
between the two sums, attention takes linear time (Katharopoulos et al., Transformers are
RNNs, 2020, arXiv:2006.16236). Which way is cheaper depends on the extents, and whoever uses the
rule says how operations are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, update_wrapper
from typing import TypeAlias

from monocomp import terms as T
from monocomp.rewrites.normal_form import normalise
from monocomp.rewrites.products import is_product
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import exponent_of

LARGEST_POWER = 4

Measure: TypeAlias = Callable[[Equations], tuple[int, ...]]


def exchange_by(rules: RuleSet, operations: Callable[[Equations], int]) -> RuleSet:
    """Return the rule set that exchanges sums.

    Args:
        rules: the rules that bring its results to normal form.
        operations: counts the operations of a program.

    Each step lowers the measure of the program's normal form: the number of operations, then that
    of sums, then that of sums out of order. So the steps end, whatever the rules of the normal form
    do between them.
    """

    measure = partial(measure_of, rules, operations)
    exchange = RuleSet("exchange", "nested sums of products are taken in the cheapest order")
    for choice in (exchange_sums, join_products):
        exchange.choice(update_wrapper(partial(choice, measure), choice))
    return exchange


def measure_of(
    rules: RuleSet, operations: Callable[[Equations], int], program: Equations
) -> tuple[int, ...]:
    """Measure a program's normal form: its operations, its sums, and those out of order."""
    normal = program.map(partial(normalise, rules=rules))
    return operations(normal), *disorder(normal)


def disorder(program: Equations) -> tuple[int, int]:
    """Count the sums, and the pairs of nested ones of which the inner extent comes before the outer
    one."""
    sums = {t for t in T.subterms(*(e.body for e in program.equations)) if is_fold(t, "sum")}
    inner = ((t, s) for t in sums for s in T.subterms(t) if is_fold(s, "sum"))
    return len(sums), sum(s.attr.extents < t.attr.extents for t, s in inner)


def exchange_sums(measure: Measure, program: Equations) -> Choice | None:
    """A sum of products that hold a sum: the outer sum is taken first.

    Law:     `sum[k](sum[d](A[d] * B[d,k]) * C[k]) = sum[d](A[d] * sum[k](B[d,k] * C[k]))`
    Claims:  distributivity, interchange
    Needs:   it lowers the measure of the program's normal form; the factors are finite, or the
             inverses of what is, if what they read is
    before:  index e < 2
             O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) * C[k,e])
    after:   index e < 2
             O[i,e] = sum[j](A[i,j] * sum[k](B[k,j] * C[k,e]))
    """
    alike: dict[Term, list[tuple[Term, Term]]] = {}
    for t in candidates(program):
        alike.setdefault(T.unnamed(t), []).append((t, _in_normal_form(t)))
    return _least(measure, program, alike.values())


def join_products(measure: Measure, program: Equations) -> Choice | None:
    """Products of matrices of which one side is the same are one, of the sum of the others.

    Law:     `a * sum[k if c](w * x) + b * sum[k if c](w * y) = sum[k if c](w * (a * x + b * y))`
    Claims:  joined_products
    Needs:   both are products of matrices, and so is the sum of both, or it would be split again;
             a, b and w are finite, and there are no exponential weights; it lowers the measure of
             the normal form
    before:  A[i,j] = sum[k](X[i,k] * Z[j,k]) - sum[k](Y[i,k] * Z[j,k])
    after:   A[i,j] = sum[k]((X[i,k] - Y[i,k]) * Z[j,k])
    """
    alike: dict[Term, list[tuple[Term, Term]]] = {}
    for t in sorted(T.subterms(*(e.body for e in program.equations)), key=lambda t: t.key):
        for bindings in _JOINED.matches(t) if t.op == "add" else ():
            joined = _JOINED.result(bindings)
            new = T.add(joined, *bindings.remainder)
            alike.setdefault(T.unnamed(joined), []).append((t, new))
    return _least(measure, program, alike.values())


def _are_products(bindings: Bindings) -> bool:
    """True if both sums are products of matrices whose other sides vary with the same indices, and
    so is the sum of both, or it would be split again; a weight has its own frame."""
    (bound, *more), fold = bindings.folds["k"]
    a, b, w, x, y = (bindings.terms[v] for v in "abwxy")
    bodies = [T.mul(w, x), T.mul(w, y), T.mul(w, T.add(T.mul(a, x), T.mul(b, y)))]
    name = bound.name
    return (
        (fold.kind == "float" and not more)
        and T.mul(a, x).free == T.mul(b, y).free
        and not any(name in exponent_of(body).free for body in bodies[:2])
        and all(is_product(body, name) for body in bodies)
    )


(_JOINED,) = equations(
    """
    joined_products: a * sum[k if c](w * x) + b * sum[k if c](w * y)
        = sum[k if c](w * (a * x + b * y))
        needs w finite if read, a finite if read, b finite if read,
        worth a is of no fold, b is of no fold, they are products of matrices
    """,
    a_is_of_no_fold=Guard(lambda found: not found.terms["a"].folded),
    b_is_of_no_fold=Guard(lambda found: not found.terms["b"].folded),
    they_are_products_of_matrices=Guard(_are_products),
)


def _least(
    measure: Measure, program: Equations, changes: Iterable[Sequence[tuple[Term, Term]]]
) -> Choice | None:
    """Return the first of the changes that give the least measure, if it is less than before."""
    choices = [_replaced(positions, program) for positions in changes]
    best = min(choices, key=lambda choice: measure(choice.program), default=None)
    return best if best and measure(best.program) < measure(program) else None


def _replaced(positions: Sequence[tuple[Term, Term]], program: Equations) -> Choice:
    """Return a choice that names the first of several terms and replaces all of them in the
    program. They differ by the names of indices, and what several equations need is computed in
    one way."""
    for old, new in sorted(positions, key=lambda p: -p[0].height):  # what holds another comes first
        program = Choice.replacing(old, new, program).program
    return Choice(*positions[0], program)


def candidates(program: Equations) -> list[Term]:
    """Return the sums whose order can be chosen, in a fixed order."""
    terms = {
        t
        for t in T.subterms(*(e.body for e in program.equations))
        if t.op == "fold" and t.attr.monoid == "sum"
        if len(t.attr.indices) == 1 and _exchanged(t) is not t
    }
    return sorted(terms, key=lambda t: t.key)


@lru_cache(maxsize=65536)
def _in_normal_form(t: Term) -> Term:
    return normalise(_exchanged(t))


@lru_cache(maxsize=1024)
def _exchanged(t: Term) -> Term:
    """Take every sum in the products of a sum outside of it; return t if there is none."""
    (bound,), (condition, body) = T.open_fold(t)
    name = bound.name
    parts = []
    for m in _expanded(body, name):
        inside = [f for f in m if not _is_inner_sum(f, name)]
        binders: list[tuple[Term, Term]] = []
        for f in (f for f in m if _is_inner_sum(f, name)):
            (index,), (filter_, element) = T.open_as(f, (f"{name}'{len(binders)}",))
            deep = [c for c in T.conjuncts(filter_) if name in c.free]
            flat = [c for c in T.conjuncts(filter_) if name not in c.free]
            binders.append((index, T.conjunction(*flat)))
            inside += [*map(T.bracket, deep), element]
        total = T.fold("sum", (bound,), condition, T.mul(T.const(1, body.kind), *inside))
        for index, filter_ in reversed(binders):
            total = T.fold("sum", (index,), filter_, total)
        parts.append(T.mul(total, _nonempty(bound, condition)) if binders else total)
    return T.add(*parts)


def _nonempty(bound: Term, condition: Term) -> Term:
    """[the outer sum has an element]: what leaves it is not looked at if it has none."""
    if T.has_element(T.fold("sum", (bound,), condition, T.ONE)):
        return T.ONE
    count = T.fold("sum", (bound,), condition, T.const(1))
    return T.bracket(T.compare("<", T.const(0), count))


def _is_inner_sum(t: Term, name: str) -> bool:
    single = t.op == "fold" and t.attr.monoid == "sum" and len(t.attr.indices) == 1
    return single and name in t.free and t.kind == "float"


def _expanded(t: Term, name: str) -> list[list[Term]]:
    """Return the monomials of a product, multiplied out where sums stand in its factors."""

    def holds(s: Term) -> bool:
        inside = s.op in ("add", "mul", "pow") and any(map(holds, s.args))
        return inside or _is_inner_sum(s, name)

    match t.op:
        case "add" if holds(t):
            return [m for a in t.args for m in _expanded(a, name)]
        case "mul":
            parts = list(t.args)
        case "pow" if t.attr in range(2, LARGEST_POWER + 1):
            parts = [t.args[0]] * int(t.attr)
        case _:
            return [[t]]
    addends: list[list[Term]] = [[]]
    for f in parts:
        addends = [m + n for m in addends for n in _expanded(f, name)]
    # inf * (a - b) is a number, inf * a - inf * b is none.
    is_finite = all(T.is_finite_if_there(T.base_and_power(f)[0]) for m in addends for f in m)
    return addends if is_finite else [[t]]
