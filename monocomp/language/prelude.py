"""The monoids that every program may use by name, without declaring them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from monocomp.language.parser import parse
from monocomp.language.syntax import Monoid


@cache
def standard_monoids() -> Mapping[str, Monoid]:
    """Return the declarations in `monoids.mc`, by name."""
    file = resources.files(__package__).joinpath("monoids.mc")
    statements = parse(file.read_text(encoding="utf-8"))
    return {s.name: s for s in statements if isinstance(s, Monoid)}
