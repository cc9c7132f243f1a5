"""Selection: what keeps the order of elements leaves a choice among them.

argmax, top and argtop compare elements and do nothing else. So they commute with increasing
functions: positions do not change, and values are mapped after they are chosen. The largest
probabilities are then found among the logits, in the pass that sums the weights.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewrites.single_folds import scales_no_weights
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection

selection = RuleSet("selection", "increasing functions leave a choice among elements")

selection.add(
    *equations(
        """
        # The position of an extreme element is that of its image where elements are scaled.
        leave_scale: argtop[k -> r if c](a * x) = argtop[k -> r if c](x)
            needs a free of k, a positive where it is a number, worth a scales no weights

        leave_scale_of_argmax: argmax[k if c](a * x) = argmax[k if c](x)
            needs a free of k, a positive where it is a number, worth a scales no weights

        # The largest elements are mapped after they are chosen; what is missing stays -inf.
        map_scaled: top[k -> r if c](a * x)
            = where(0 <= argtop[k -> r if c](x), a * top[k -> r if c](x), -inf)
            needs a free of k, a positive where it is a number, worth a scales no weights
        """,
        a_scales_no_weights=Guard(scales_no_weights),
    )
)
_LEAST = T.const(-(2**127), "float")  # the exponential of it is 0, and it is finite in all dtypes


@selection.procedure
def choose_among_exponents(t: Term) -> Term | None:
    """The largest exponentials are those of the largest exponents.

    Of an element that is 0 the exponent is -inf, which would be none. It becomes a number, unless
    all that is left then is the first position, which is that of an element.

    Law:     `argmax[k](exp(x)) = argmax[k](x)`, and `top[k -> r](exp(x)) = exp(top[k -> r](x))`;
             what is missing stays `-inf`
    Claims:  increasing functions
    before:  index e < 2
             T[i,e] = top[k -> e](exp(relu(S[i,k])))
    after:   index e < 2
             T[i,e] = where(0 <= argtop[k -> e](relu(S[i,k])), exp(top[k -> e](relu(S[i,k]))), -inf)
    """
    is_position = t.op == "fold" and t.attr.monoid == "argmax"
    if not (is_position or is_selection(t)):
        return None
    (bound,), (condition, weight) = T.open_fold(t)
    if weight.op != "exp" or bound.name not in weight.free:
        return None
    (x,) = weight.args
    if not (T.exceeds_minus_infinity(x) or (is_position and condition is T.TRUE)):
        x = T.function("maximum", x, _LEAST)
    if is_position:
        return T.fold("argmax", (bound,), condition, x)

    def listed(monoid: str) -> Term:
        return T.fold_at(monoid, t.args[0], bound, condition, x, target=t.attr.target)

    if t.attr.monoid == "argtop":
        return listed("argtop")
    is_there = T.compare("<=", T.const(0), listed("argtop"))
    return T.where(is_there, T.exp(listed("top")), T.NEG_INF)
