"""The laws of differentiation: the derivative of each operation, proved.

The table of partial derivatives is asked for those of an operation on symbols; sympy differentiates
the operation, case by case, away from its kinks. Constants such as 2 / sqrt(pi) stand for the
floats nearest to them. An aggregate is made of combines: its derivative follows from that of one,
by induction over the elements, and in a user's monoid from that of `before . element . after`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial, reduce

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.display.formulas import (
    Formula,
    call,
    chain,
    infix,
    name,
    number,
    sentence,
)
from monocomp.gradients.folds import Product
from monocomp.gradients.partials import Partial, partials
from monocomp.language.printing import statement
from monocomp.proving.arithmetic import UnsupportedTermError
from monocomp.proving.case_analysis import Evaluator, Path, Sample, Value
from monocomp.proving.identities import Claim, Identity, where
from monocomp.proving.proofs import certify_claims
from monocomp.proving.prover import Law
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.printer import formula, show

FOLDS = {
    "sum": "`d(sum[k](x)) = sum[k](dx)`",
    "max": "`d(max[k](x)) = dx` where x is the first that is largest",
    "min": "`d(min[k](x)) = dx` where x is the first that is smallest",
    "prod": "d(prod(x)) = sum(dx * prod(the others))",
    "fold_at": "a value of a prefix is the aggregate up to its position",
    "selection": "an entry of a selection is the element whose position it has",
    "field": "d(a . x . b) = dx through both combines, for a before x and b after it",
}
DEFINED = ("fold_at", "selection")
_COMBINES = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_SYMBOLS = ("x", "y")
_KINKS = ("abs", "relu", "elu", "sign")


def law_of(t: Term) -> Formula:
    """Return the law by which a term is differentiated."""
    if t.op == "fold" and t.attr.monoid in FOLDS:
        return statement(FOLDS[t.attr.monoid])
    if t.op in ("fold", "fold_at", "field"):
        return statement(FOLDS["selection" if is_selection(t) else t.op])
    generic = on_symbols(t)
    parts = [_times(p.factor, name(f"d{show(p.operand)}")) for p in _partials(generic)]
    total = reduce(partial(infix, "+"), parts) if parts else number("0")
    return chain("=", call("d", formula(generic)), total)


def _times(slope: Term, x: Formula) -> Formula:
    return x if slope is T.ONE else infix("*", formula(slope), x)


def on_symbols(t: Term) -> Term:
    """Return an operation on symbols; of sums and products two are enough, and of aggregates a
    combine."""
    if t.op == "fold":
        return T.inert(_COMBINES[t.attr.monoid], *(T.param(n, "float") for n in _SYMBOLS))
    kinds = [a.kind for a in t.args][: 2 if t.op in ("add", "mul") else None]
    names = iter(_SYMBOLS)
    args = [T.param("c", "bool") if k == "bool" else T.param(next(names), "float") for k in kinds]
    return T.inert(t.op, *args, attr=t.attr)


def certified(terms: Iterable[Term], fresh: bool = False) -> tuple[Law, ...]:
    """Return the laws of the operations and aggregates that terms are, with their proofs. An
    entry of a selection, or of a prefix, is by definition an element, or an aggregate."""
    generic: dict[Term | T.UserMonoid, None] = {}
    for t in terms:
        if t.op == "field" and not is_selection(t):
            generic[t.args[0].attr.monoid] = None
        elif t.op not in ("fold_at", "field") and (t.op != "fold" or t.attr.monoid in _COMBINES):
            generic[on_symbols(t)] = None
    return tuple(law for of in generic for law in _certified(of, fresh))


def _certified(of: Term | T.UserMonoid, fresh: bool) -> tuple[Law, ...]:
    claims = list(_of_product(of) if isinstance(of, T.UserMonoid) else _claims(of))
    parts = (*of.unit, *of.combine) if isinstance(of, T.UserMonoid) else (of,)
    content = tuple(t.key[2] for t in parts), tuple(str(c.statement) for c in claims)
    return certify_claims("derivatives", content, lambda: claims, fresh)


@lru_cache(maxsize=256)
def _partials(t: Term) -> tuple[Partial, ...]:
    """Return one partial derivative for each operand of an operation on symbols."""
    slopes: dict[Term, Term] = {}
    for p in partials(t):
        slopes[p.operand] = T.add(slopes.get(p.operand, T.ZERO), _slope(p))
    return tuple(Partial(x, slope) for x, slope in slopes.items())


def _slope(p: Partial) -> Term:
    return T.where(p.condition, p.factor, T.ZERO)


def _claims(t: Term) -> Iterator[Claim]:
    for p in _partials(t):
        slope = infix("/", call("d", formula(t)), name(f"d{show(p.operand)}"))
        equal = chain("=", slope, formula(p.factor))
        said = sentence(equal, *where(map(formula, _smooth(t))))
        part = _Slope.of_value(t, p.factor, p.operand, _smooth(t))
        yield Claim(str(slope), said, (part,))


def _of_product(m: T.UserMonoid) -> Iterator[Claim]:
    """Yield the derivatives of `a . x . b`, away from what choices depend on."""
    symbols = [[T.param(f"{at}_{f}", "float") for f in m.fields] for at in "axb"]
    product = Product(m, *symbols)
    for field in m.fields:
        value = product.value(field)
        smooth = tuple(c for t in T.subterms(value) for c in _smooth(t))
        for of, x in zip(m.fields, symbols[1], strict=True):
            slope = product.derivative(field, of)
            what = f"d({m.name}: a . x . b).{field} / d{show(x)}"
            said = sentence(f"{what} = ", formula(slope), ", but for jumps and kinks")
            yield Claim(what, said, (_Slope.of_value(value, slope, x, smooth),))


@record()
class _Slope(Identity):
    """The right side is the derivative of the left one, for the parameter that is the operand."""

    @classmethod
    def of_value(cls, value: Term, slope: Term, x: Term, smooth: Iterable[Term]) -> _Slope:
        """Return the claim about a value, where it is smooth."""
        condition = T.conjunction(*smooth)
        return cls((value,), (slope,), (), condition, operands={"x": (x,)})

    def sides(self, case: Path, number: int, value: Evaluator) -> Sequence[Value]:
        """Return the derivative, and what is said to be it."""
        if isinstance(case, Sample):
            raise UnsupportedTermError("what is differentiated are symbols")
        left, slope = super().sides(case, number, value)
        (x,) = self.operands["x"]
        return _differentiated(case, left, value(x)), _exact(case, slope)


def _smooth(t: Term) -> tuple[Term, ...]:
    """Yield the conditions under which an operation is differentiated."""
    if not t.args:
        return ()
    x, zero = t.args[0], T.ZERO
    if t.op in ("maximum", "minimum"):
        return (T.compare("!=", x, t.args[1]),)
    if t.op in _KINKS or (t.op == "pow" and t.attr.denominator == 1 and t.attr < 0):
        return (T.compare("!=", x, zero),)
    if t.op in ("log", "power") or (t.op == "pow" and t.attr.denominator > 1):
        return (T.compare("<", zero, x),)
    return (T.compare("!=", t.args[1], zero),) if t.op == "mod" else ()


def _differentiated(cases: Path, value: Value, x: Value) -> Value:
    sympy = cases.algebra.sympy
    value = value + sympy.Integer(0)  # which may be a number of Python's
    steps = {f: sympy.Dummy() for f in value.atoms(sympy.floor)}  # constant but for jumps
    derivative = sympy.diff(value.xreplace(steps), x)
    return derivative.xreplace({d: f for f, d in steps.items()})


def _exact(cases: Path, value: Value) -> Value:
    """Return a value with the constants that floats stand for."""
    sympy = cases.algebra.sympy
    constants = (2 / sympy.sqrt(sympy.pi), 1 / sympy.sqrt(2), 1 / sympy.sqrt(2 * sympy.pi))
    rounded = {cases.number(Fraction(float(c))): c for c in constants}
    return (value + sympy.Integer(0)).xreplace(rounded)
