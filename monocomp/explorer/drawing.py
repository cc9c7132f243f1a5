"""Drawings as SVG: shapes, words, and a title that says what is to be seen.

Every colour lies in the middle between black and white, so that a drawing reads on light and on
dark paper: an image can't know on which it stands. Where a drawing is part of a page, the page's
own style decides about its words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

KEY, GOOD, WARM, GREY = "#6f7bf0", "#2f9e6c", "#d98a2b", "#8a8f9b"
XMLNS = ' xmlns="http://www.w3.org/2000/svg"'  # which a file needs, and a page knows
_INK = "#7a7a7a"  # contrast 4.3 to white and to #111
_SANS = "system-ui,-apple-system,'Segoe UI',Arial,sans-serif"
_MONO = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_WORDS = {  # by class: soft, monospaced, bold, inside a box
    "s": "",
    "m": f' font-family="{_MONO}"',
    "b": ' font-weight="600"',
    "i": ' fill="#101319"',
}


@dataclass
class Drawing:
    """A drawing of a width and height, in pixels."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, **more: object
    ) -> None:
        """A rectangle."""
        at = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {at} fill="{fill}"{_attributes(more)}/>')

    def line(self, *points: tuple[float, float], stroke: str = GREY, **more: object) -> None:
        """Straight lines from point to point."""
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = f'fill="none" stroke="{stroke}" stroke-width="1.5"'
        self.parts.append(f'<polyline points="{at}" {style}{_attributes(more)}/>')

    def dot(self, x: float, y: float, radius: float, fill: str, **more: object) -> None:
        """A circle."""
        at = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
        self.parts.append(f'<circle {at} fill="{fill}"{_attributes(more)}/>')

    def text(
        self, x: float, y: float, words: str, classes: str = "", anchor: str = "start"
    ) -> None:
        """Words, beginning, ending or centred at a point."""
        style = f' class="{classes}"' if classes else ""
        style += "".join(_WORDS[name] for name in classes.split())
        where = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}{where}>{escape(words)}</text>')

    def svg(self, title: str) -> str:
        """Return the drawing; `title` is what those hear who don't see it."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        return (
            f"<svg{XMLNS} {size} "
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" '
            f'fill="{_INK}" font-family="{_SANS}" font-size="13">'
            f"<title>{escape(title)}</title>{''.join(self.parts)}</svg>\n"
        )


def _attributes(more: dict[str, object]) -> str:
    return "".join(f' {n.replace("_", "-")}="{escape(str(v))}"' for n, v in more.items())
