"""Programs as users give them: text, or the path of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from monocomp import library
from monocomp.errors import UsageError, nearest
from monocomp.language.checker import check
from monocomp.language.parser import text_of
from monocomp.terms.contractions import with_dtypes_of
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate

if TYPE_CHECKING:
    from monocomp.language.parser import HasText
    from monocomp.translation.declared_monoids import Monoid


def read_equations(
    text_or_path: str | os.PathLike[str] | HasText,
    name: str | None = None,
    monoids: Iterable[Monoid] = (),
) -> Equations:
    """Return the equations of a program; see `kernel.compile` for what is given."""
    text, stem = _text(text_or_path)
    equations = _equations(text, name or stem, tuple(monoids))
    # A derived program says which of its definitions are stored, and the dtypes of its results.
    equations = replace(equations, kept=getattr(text_or_path, "kept", None))
    derived: Equations | None = (
        text_or_path
        if isinstance(text_or_path, Equations)
        else getattr(text_or_path, "equations", None)
    )
    return equations if derived is None else with_dtypes_of(equations, derived.declared)


@lru_cache(maxsize=256)
def _equations(text: str, name: str | None, monoids: tuple[Monoid, ...]) -> Equations:
    """Return what a text says. It is read once for all dtypes, backends, and gradients."""
    return translate(check(text, name, {m.name: m.statement for m in monoids}))


def _text(text_or_path: str | os.PathLike[str] | HasText) -> tuple[str, str | None]:
    if isinstance(text_or_path, os.PathLike):
        return _file(Path(text_or_path))
    text_or_path = text_of(text_or_path, "a program's text, the path of a file, or a gradient")
    if "=" in text_or_path or "\n" in text_or_path or len(text_or_path) > 4096:
        return text_or_path, None
    name = text_or_path.strip()
    if name.isidentifier() and (near := nearest(name, library.names())):
        raise UsageError(
            f"'{name}' is the name of a program of the library, and no program"
            if near == name
            else f"'{name}' is no program, and the library has none of that name",
            help=f'give its text: mc.compile(mc.library.load("{near}"))'
            if near == name
            else f'did you mean mc.library.load("{near}")?',
        )
    is_path = os.sep in name and not re.search(r"[\[\](]", name)  # and no formula with a quotient
    if is_path or re.fullmatch(r"[\w.-]+\.\w+", name) or os.path.isfile(text_or_path):
        return _file(Path(text_or_path))
    return text_or_path, None


def _file(path: Path) -> tuple[str, str | None]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as fault:
        raise UsageError(
            f"cannot read {str(path)!r}: {getattr(fault, 'strerror', None) or fault}",
            help="give a program's text or the path of a file",
        ) from None
    stem = path.stem
    return text, stem if stem.isidentifier() and stem.isascii() else None
