"""Values of the forward that a backward pass reads instead of computing them anew.

    sum_k exp(S[q,k])              is exp(L[q]), with L saved: a weight over it is exp(S - L)
    sum_k exp(S[q,k]) * V[k,e]     is O[q,e] * exp(L[q]), where O = that over the sum above

A sum of exponentials is saved as its logarithm, as it may be too large for a float, and beside that
its largest exponent where the logarithm alone loses digits. A sum of what they weigh may
be as large: it is saved over the sum of weights that divides it. Where the program returns a
product, a factor is read as this product over the other factors. An aggregate without exponentials
is saved as it is.

Digits of logarithms: beside a large exponent a float has none for how many elements have it.

    L[q] = log(sum[k](exp(S[q,k])))           of logits of -1e9 is -1e9, and exp(S - L) is 1
    m[q] = max[k](S[q,k])                     is saved for that, with what is left of
    L[q] = log(sum[k](exp(S[q,k] - m[q])))    and a weight is exp((S - m) - L)

Logits that are sums of products were rounded as much, and a distance differs from element to
element: where they are large few elements count. L is enough for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from monocomp import terms as T
from monocomp.costs.closing import close
from monocomp.gradients.reading import is_aggregate, is_exponential_sum
from monocomp.gradients.reverse import Fresh
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import addends, exponent_of, factors, without_exponent


@dataclass(frozen=True)
class Saved:
    """A value that the forward stores.

    Attributes:
        equation: what it is, by the name under which it is stored.
        of: the term that it stands for: itself, what it is the logarithm of, or what it is over a
            sum of weights.
        frame: the largest exponent, where that is saved apart from the logarithm.
    """

    equation: Equation
    of: Term
    frame: Equation | None = None


def candidates(program: Equations, fresh: Fresh) -> list[Saved]:
    """Return the values that may be saved, as far as they are no outputs: aggregates, and what
    the program divides by."""
    known = {close(e.body)[0] for e in program.outputs}
    terms = list(T.subterms(*(e.body for e in program.equations)))
    divisors = dict(_divided(terms)) | dict(_weighed(terms))
    # They have to be recognised in sums of them.
    exponents_of_weights = {*T.subterms(*(t.args[0] for t in terms if t.op == "exp"))}
    values: dict[Term, Saved] = {}
    for t in terms:
        t = t.args[0] if t.op == "pow" and t.attr < 0 else t
        total = divisors.get(t)
        is_log = t.kind == "float" and is_exponential_sum(t)
        if (not is_log and not is_aggregate(t)) or t in exponents_of_weights:
            continue
        whole = t
        if _is_over(t, total) if is_log else has_exponential(t):
            if total is None:
                continue
            whole = T.mul(t, T.power_of(total, -1))
        closed, closed_whole = close(t)[0], close(whole)[0]
        if closed in values or closed in known or closed_whole in known:
            continue
        opened = names_for(whole, fresh)
        t, whole = T.substitute(t, opened), T.substitute(whole, opened)
        value = as_logsumexp(T.log(whole)) if is_log else whole
        indices = T.free_indices(whole)
        is_framed = is_log and whole is t and loses_digits(t)
        frame = Equation("m", indices, largest_exponent(t)) if is_framed else None
        of = whole if is_log else t
        values[closed] = Saved(Equation("L" if is_log else "M", indices, value), of, frame)
    return list(values.values())


def aggregates_in_exponents(program: Equations) -> tuple[list[Term], list[Term]]:
    """Return all of them, with the exponents, and those that are in no other."""
    terms = T.subterms(*(e.body for e in program.equations))
    exponents = [t.args[0] for t in terms if t.op == "exp"]
    outer = dict.fromkeys(a for t in exponents for a in outer_aggregates(t))
    return [*exponents, *filter(is_aggregate, T.subterms(*exponents))], list(outer)


def _divided(terms: Iterable[Term]) -> Iterator[tuple[Term, Term]]:
    """Yield the aggregates of what exponentials weigh, and the sum of weights that divides them."""
    for t in terms:
        if t.op == "mul":
            totals = [f for f in t.args if f.op == "pow" and f.attr < 0]
            totals = [f for f in totals if is_exponential_sum(f.args[0])]
            if len(totals) == 1 and totals[0].attr == -1:
                for a in filter(is_aggregate, t.args):
                    yield a, totals[0].args[0]


def _weighed(terms: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """Yield the aggregates of what exponentials weigh, and the sum of these weights, where that is
    a sum of the program."""
    totals = {t for t in terms if t.op == "fold" and is_exponential_sum(t)}
    for t in terms:
        if t.op == "fold" and t.attr.monoid == "sum" and t.kind == "float":
            opened, (condition, body) = T.open_fold(t)
            weights = T.mul(T.ONE, *(f for f in factors(body) if f.op == "exp"))
            total = T.fold("sum", opened, condition, weights)
            if total is not t and total in totals:
                yield t, total


def _is_over(t: Term, total: Term | None) -> bool:
    """True if a sum of weights is divided by one over the same indices."""
    if total is None or t.op != "fold" or total.op != "fold":
        return False
    return bool(t.attr.extents == total.attr.extents)


def has_exponential(t: Term) -> bool:
    """True if a term holds an exponential."""
    return any(s.op == "exp" for s in T.subterms(t))


def names_for(t: Term, fresh: Fresh) -> dict[str, Term]:
    """Return the names of the program for the indices that are free in a term because folds around
    it are open."""
    opened = [i for i in T.free_indices(t) if not i.name.isidentifier()]
    taken = {i.name for i in T.free_indices(t)}
    names = fresh([i.extent for i in opened], taken)
    return {i.name: T.index(n, i.extent) for i, n in zip(opened, names, strict=True)}


def is_logarithm(t: Term) -> bool:
    """True if a term is a logarithm: a `log` or a `logsumexp`."""
    return t.op == "log" or (t.op == "fold" and t.attr.monoid == "logsumexp")


def is_given(t: Term) -> bool:
    """True if the definition of a saved value has to be known: of a logarithm, for what it bounds,
    and of an aggregate that may be over nothing, as 0 divided by that is 0."""
    return is_logarithm(t) or (is_aggregate(t) and T.may_be_empty(t))


def as_logsumexp(t: Term) -> Term:
    """log(sum(exp(x))) by its name."""
    if t.op != "log" or t.args[0].op != "fold" or t.args[0].attr.monoid != "sum":
        return t
    opened, (condition, body) = T.open_fold(t.args[0])
    return T.fold("logsumexp", opened, condition, body.args[0]) if body.op == "exp" else t


def outer_aggregates(t: Term) -> Iterator[Term]:
    """Yield the aggregates of a term that are in no other."""
    parts = [t]
    while parts:
        part = parts.pop()
        if is_aggregate(part):
            yield part
        elif part.folded:
            parts += part.args


# --- digits of logarithms ---------------------------------------------------------------------


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
    return T.mul(without_exponent(t), T.exp(T.sub(exponent_of(t), shift)))
