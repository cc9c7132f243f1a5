"""One aggregate in four bracketings: a stream, a tree, split streams, a ring of devices.

What a loop folds is a monoid's, so its blocks may be combined in any bracketing that keeps their
order; a ring begins elsewhere on each device, so it needs a monoid that commutes as well.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.derivation.certificate import Certificate
from monocomp.errors import UsageError
from monocomp.explorer.drawing import GOOD, GREY, KEY, WARM, Drawing
from monocomp.planning.plan import Plan
from monocomp.terms import Term
from monocomp.terms.algebra import value_of
from monocomp.terms.printer import show
from monocomp.tile import Loop

_BLOCKS = 8
_STEP, _LEFT = 50, 34


def bracketings(plan: Plan, certificate: Certificate) -> str:
    """Draw an aggregate that a kernel streams; of several, one in a monoid of tuples, if there is
    one."""
    fold, index = _streamed(plan)
    monoid = fold.attr.monoid
    name = monoid.name if isinstance(monoid, T.UserMonoid) else monoid
    what = show(value_of(fold), plan.program.reader_names())
    words = what if len(what) <= 76 else what[:73] + "..."
    laws = {law.short: law.holds for t in certificate.theories if t.name == name for law in t.laws}
    commutes = bool(laws.get("commutative"))
    d = Drawing(900, 560)
    d.text(_LEFT, 30, words, "m b")
    proved = f": {name} is associative (proved)" if laws.get("associative") else ""
    d.text(_LEFT, 52, f"eight blocks of {index}, four bracketings, one value{proved}", "s")
    _stream(d, _LEFT, 92, index)
    _tree(d, 480, 92, index)
    _split(d, _LEFT, 340, index)
    _ring(d, 480, 340, index, commutes, name)
    return d.svg(f"Four bracketings of {words}: a stream, a tree, split streams and a ring")


def _streamed(plan: Plan) -> tuple[Term, str]:
    """Return a fold, and the name of the index that a kernel walks along for it."""
    loops = {s.axis.extent: s.axis for k in plan.kernels for s in k.body if isinstance(s, Loop)}
    folds = [
        t
        for t in T.subterms(*(e.body for e in plan.program.equations))
        if t.op == "fold" and loops.keys() & set(t.attr.extents)
    ]
    if not folds:
        raise UsageError("no kernel of this program streams an aggregate")
    fold = max(folds, key=lambda t: isinstance(t.attr.monoid, T.UserMonoid))
    return fold, next(loops[e].name for e in fold.attr.extents if e in loops)


def _blocks(d: Drawing, x: float, y: float, index: str, fills: list[str]) -> list[float]:
    centres = []
    for n, fill in enumerate(fills):
        d.box(x + n * _STEP, y, _STEP - 10, 24, fill, rx=5)
        d.text(x + n * _STEP + (_STEP - 10) / 2, y + 17, f"{index}{_small(n)}", "i", "middle")
        centres.append(x + n * _STEP + (_STEP - 10) / 2)
    return centres


def _small(n: int) -> str:
    return "₀₁₂₃₄₅₆₇₈₉"[n]


def _join(
    d: Drawing, left: tuple[float, float], right: tuple[float, float], at: tuple[float, float]
) -> None:
    d.line(left, at)
    d.line(right, at)
    d.dot(*at, 5, KEY)


def _stream(d: Drawing, x: float, y: float, index: str) -> None:
    d.text(x, y, "stream", "b")
    d.text(x + 62, y, "one loop carries the state", "s")
    centres = _blocks(d, x, y + 14, index, [KEY] * _BLOCKS)
    top, at = y + 38, (centres[0], y + 38.0)
    for n, c in enumerate(centres[1:], 1):
        point = (c, top + 12 + 17 * n)
        _join(d, at, (c, top), point)
        at = point
    d.dot(*at, 7, GOOD)


def _tree(d: Drawing, x: float, y: float, index: str) -> None:
    d.text(x, y, "tree", "b")
    d.text(x + 42, y, "in parallel, as depth allows", "s")
    row = [(c, y + 38.0) for c in _blocks(d, x, y + 14, index, [KEY] * _BLOCKS)]
    level = 0
    while len(row) > 1:
        level += 1
        above = []
        for left, right in zip(row[::2], row[1::2], strict=True):
            at = ((left[0] + right[0]) / 2, y + 38 + 42.0 * level)
            _join(d, left, right, at)
            above.append(at)
        row = above
    d.dot(*row[0], 7, GOOD)


def _split(d: Drawing, x: float, y: float, index: str) -> None:
    d.text(x, y, "split", "b")
    d.text(x + 42, y, "partial streams side by side, then merged", "s")
    half = _BLOCKS // 2
    centres = _blocks(d, x, y + 14, index, [KEY] * half + [WARM] * half)
    ends = []
    for part in (centres[:half], centres[half:]):
        at = (part[0], y + 38.0)
        for n, c in enumerate(part[1:], 1):
            point = (c, y + 52 + 24.0 * n)
            _join(d, at, (c, y + 38), point)
            at = point
        ends.append(at)
    last = ((ends[0][0] + ends[1][0]) / 2, y + 168.0)
    _join(d, ends[0], ends[1], last)
    d.dot(*last, 7, GOOD)


def _ring(d: Drawing, x: float, y: float, index: str, commutes: bool, name: str) -> None:
    d.text(x, y, "ring", "b")
    needs = f"each device begins with its own: {name} commutes (proved)"
    d.text(x + 42, y, needs if commutes else f"not here: {name} isn't known to commute", "s")
    if not commutes:
        return
    fills = (KEY, WARM, GOOD, GREY)
    for device in range(4):
        top = y + 22 + 42.0 * device
        d.text(x, top + 17, f"device {device}", "s")
        at = None
        for step in range(4):
            block = (device + step) % 4
            left = x + 84 + step * 82
            d.box(left, top, 52, 24, fills[block], rx=5)
            pair = f"{index}{_small(2 * block)}{index}{_small(2 * block + 1)}"
            d.text(left + 26, top + 17, pair, "i", "middle")
            if at is not None:
                d.line((at, top + 12), (left, top + 12))
                d.dot((at + left) / 2, top + 12, 5, KEY)
            at = left + 52
        d.line((x + 84 + 4 * 82 - 30, top + 12), (x + 84 + 4 * 82 - 8, top + 12))
        d.dot(x + 84 + 4 * 82 - 8, top + 12, 6, GOOD)
