"""The pictures by their names, for a kernel at given sizes."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

from monocomp.declarations.records import by_representative
from monocomp.errors import require_known
from monocomp.explorer.bracketings import bracketings
from monocomp.explorer.html import picture as image
from monocomp.explorer.touched import tiles
from monocomp.kernel import Kernel
from monocomp.stages import Stages


def _bracketings(stages: Stages) -> str:
    return bracketings(stages.plan, stages.kernel.derivation.certify())


def _tiles(stages: Stages) -> str:
    return tiles(stages.plan, by_representative(stages.kernel.declared, stages.extents))


PICTURES: dict[str, tuple[str, Callable[[Stages], str]]] = {
    "bracketings": ("one aggregate as a stream, a tree, split streams and a ring", _bracketings),
    "tiles": ("which tiles a filter touches: full, in part, empty", _tiles),
}


class Picture(str):
    """A drawing as SVG, that notebooks show as an image."""

    @property
    def said(self) -> str:
        """Return the title of the picture: what is to be seen in it, in words."""
        return unescape(self.partition("<title>")[2].partition("</title>")[0])

    def __repr__(self) -> str:
        return f"<picture: {self.said}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": image(self, self.said)}


def picture(of: Kernel | Stages, name: str) -> Picture:
    """Return a picture of a kernel, as SVG.

    Args:
        of: a kernel, or its stages for sizes and a target: `kernel.stages.at(q=4096)`.
        name: one of `PICTURES`.

    Raises:
        UsageError: there is none of this name, or the program has nothing to show in it.
    """
    require_known(name, PICTURES, f"there is no picture {name!r}", "pictures")
    stages = of.stages if isinstance(of, Kernel) else of
    return Picture(PICTURES[name][1](stages))
