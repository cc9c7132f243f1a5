"""Index terms: the one language that every stage between the text and the kernels works on.

    term = const | index | extent | param | read | ref | stored | fold | fold_at | field
         | add | mul | pow | cast | compare | and | or | not | where | function

Terms are immutable and interned: structurally equal means identical (`is`), so common
subexpressions are found by construction. Bound indices are numbered from the inside
(`%1` binds nothing deeper), so alpha-equal folds are one object. Every term knows its
kind, its free indices and the extents that it folds, and an ill-typed term cannot be
built. Sums and products are kept in canonical form (flattened, collected, sorted): the
arithmetic of a commutative ring, over which the rewrites work.

Each module builds on those before it, in this order: nodes, constructors (the table of them),
leaves, parts, logic, binders, transfer, absence, domain, facts, ring,
comparisons, functions, folds, walking, printer. What uses the package as a whole stands
beside them: monomials, algebra, shares, contractions, equations, abbreviation.
"""

from __future__ import annotations

from monocomp.terms.binders import domain_of, free_indices, is_open, open_as, open_fold
from monocomp.terms.comparisons import compare, in_range, negate, where
from monocomp.terms.constructors import construct, rebuild
from monocomp.terms.domain import has_element
from monocomp.terms.facts import (
    exceeds_minus_infinity,
    holds_exponential,
    is_finite_if_read,
    is_finite_if_there,
    is_nonnegative,
    is_positive,
    is_positive_if_specified,
    is_there,
    is_unmasked,
    is_unmasked_if_read,
    is_weight_there,
    may_be_empty,
    may_be_mask,
    may_be_missing,
    unfolded,
    vanishes,
)
from monocomp.terms.folds import (
    BOOL_REDUCTIONS,
    INT_REDUCTIONS,
    by_definition,
    field,
    fold,
    fold_at,
    refold,
    softmax,
    substitute,
)
from monocomp.terms.functions import floordiv, function, general_power, log, modulo
from monocomp.terms.leaves import (
    FALSE,
    INF,
    NEG_INF,
    ONE,
    READS,
    TRUE,
    ZERO,
    as_int,
    computed,
    const,
    extent_of,
    index,
    is_computed,
    name_of,
    param,
    read,
    ref,
    stored,
)
from monocomp.terms.logic import conjunction, conjuncts, disjunction, equal_ints
from monocomp.terms.nodes import Binder, Equation, Number, Tensor, Term, UserMonoid, inert
from monocomp.terms.parts import (
    addends,
    base_and_power,
    is_bracket,
    is_read,
    split_addends,
    split_coefficient,
)
from monocomp.terms.printer import show
from monocomp.terms.ring import (
    add,
    as_float,
    bracket,
    divide,
    exp,
    mul,
    multiply_out,
    neg,
    power_of,
    sub,
)
from monocomp.terms.shares import shares
from monocomp.terms.walking import (
    children,
    element,
    holds,
    holds_fold,
    map_children,
    mapping_refs,
    mapping_stored,
    replace,
    replacing,
    subterms,
    transform,
    unnamed,
    with_equal,
)
