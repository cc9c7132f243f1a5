"""Monoids from Python: declared in the language, proved at once, used by programs.

    affine = mc.monoid("Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')")
    scan = mc.compile("H[t] = Affine[..t](g[t], x[t]).u", monoids=[affine])

The declaration is text of the language and never Python code. It is refused, with the law
that fails and a counterexample where one is found, unless the operation is associative and
the unit neutral.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from monocomp.errors import UsageError, in_text
from monocomp.language import syntax
from monocomp.language.free_indices import FreeIndices
from monocomp.language.monoids import MonoidResolver, with_sums
from monocomp.language.parser import parse
from monocomp.language.scoping import Scope
from monocomp.proving.proofs import require
from monocomp.proving.prover import Law, is_commutative
from monocomp.translation.translator import translate_monoid

_FORM = "Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')"


@dataclass(frozen=True)
class Monoid:
    """A monoid whose laws are proved; make one with `mc.monoid`. It prints as its declaration.

    Attributes:
        name: what programs call it.
        fields: the names of its fields.
        declaration: the line of a program that declares it.
        laws: what was proved: closed, associative, left and right unit; and what is known of
            commutativity. A law may be proved for fields that are not negative only: then a
            program must fold elements that visibly are not, such as counts.
    """

    name: str
    fields: tuple[str, ...]
    declaration: str
    laws: tuple[Law, ...] = field(repr=False)
    statement: syntax.Monoid = field(repr=False, compare=False)

    @property
    def is_commutative(self) -> bool:
        """True if it is proved that the order of elements does not matter."""
        return is_commutative(self.laws)

    def __str__(self) -> str:
        return self.declaration


def monoid(declaration: str) -> Monoid:
    """Declare a monoid, and prove its laws.

    Args:
        declaration: its name and fields, its unit, and what combines two elements, the right
            one primed; as on a `monoid` line of a program, with or without that word;
            `index` lines stand before it where fields have indices.

    Raises:
        MonoidLawError: a law does not hold, or could not be proved.
        MonocompError: what is wrong with the declaration, with its position.

    >>> affine = monoid("Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')")
    >>> affine.fields, affine.is_commutative
    (('a', 'u'), False)
    """
    text = declaration.strip()
    if not text.startswith(("monoid ", "index ")):
        text = f"monoid {text}"
    statements = parse(text)
    declared = [s for s in statements if not isinstance(s, syntax.Bound)]
    statement = declared[0] if len(declared) == 1 else None
    if not isinstance(statement, syntax.Monoid):
        raise UsageError("not the declaration of one monoid", help=f"its form is {_FORM}")
    with in_text(text):
        resolved = MonoidResolver(Scope(text, statements), statement).resolved()
        translated = translate_monoid(with_sums(resolved, FreeIndices({}), {}, text))
    # Fields may have to be >= 0; whether they are is known where a program folds.
    laws = require(translated, translated.fields, text=text, span=statement.span)
    given = replace(statement, extents=resolved.extents)
    return Monoid(str(statement.name), tuple(map(str, statement.fields)), text, laws, given)
