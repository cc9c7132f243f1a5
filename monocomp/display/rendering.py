"""Show a page in notebooks that keep markup, and plain text or markdown in others.

`monocomp.explorer` makes the page. It knows every stage, and is looked up when a notebook asks.
"""

from __future__ import annotations

from typing import Any

import monocomp


class Rendered:
    """Something that notebooks show."""

    def _repr_html_(self) -> str:
        return str(monocomp.explorer.html(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            "text/plain": str(self),
            "text/markdown": str(monocomp.explorer.markdown(self)),
            "text/html": self._repr_html_(),
        }
