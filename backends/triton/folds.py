"""Folds by a monoid of several fields: of tiles, of their prefixes, of the largest elements."""

from __future__ import annotations

from monocomp.backends.triton.expressions import Expressions
from monocomp.backends.triton.syntax import ATOM
from monocomp.tile import Combine, Fold, Selection, TileProgram


class Folds(Expressions):
    """Writes folds."""

    def _fold(self, s: Fold) -> None:
        names = ", ".join(map(self._local, s.names))
        state = [self._text(e) for e in s.state]
        if isinstance(s.monoid, Selection):
            self._assign(names, self._merge_largest(s, s.monoid, state))
        elif s.prefixes:
            self._prefixes(s, s.monoid)
        else:
            elements = self._folded_tile(s, s.monoid)
            function = self._combine(s.monoid)
            self._assign(names, f"{function}({', '.join([*state, *elements])})")
        self.known |= {*s.names, *s.prefixes}

    def _prefixes(self, s: Fold, monoid: Combine) -> None:
        """The state combined with all prefixes of a tile; the last one is the next state."""
        outer = self._order(s.state[0].axes)
        layout = self._order(s.state[0].axes | {s.axis})
        scanned = self._scanned(s, monoid, layout)
        state = [self._spread(self._text(e, outer, ATOM), outer, layout) for e in s.state]
        targets = list(map(self._local, s.prefixes))
        arguments = ", ".join([*state, *scanned])
        self._assign(", ".join(targets), f"{self._combine(monoid)}({arguments})")
        for name, target in zip(s.names, targets, strict=True):
            self._assign(self._local(name), self._last(target, s.axis, layout))

    def _scanned(self, s: Fold, monoid: Combine, layout: tuple[str, ...]) -> list[str]:
        """Names of all prefixes of a tile."""
        tiles = self._whole_tiles(s, layout)
        together = tiles[0] if len(tiles) == 1 else f"({', '.join(tiles)})"
        found = [self._name("scanned", n, f"{n.removesuffix('_new')}_scan") for n in s.names]
        place, function = layout.index(s.axis), self._combine(monoid)
        text = f"tl.associative_scan({together}, {place}, {function})"
        self._assign(", ".join(found), text)
        return found

    def _last(self, tile: str, axis: str, layout: tuple[str, ...]) -> str:
        """The last element of a tile along an axis."""
        block = self._block(axis)
        offsets = self._spread(f"tl.arange(0, {block})", (axis,), layout)
        chosen = f"tl.where({offsets} == {block} - 1, {tile}, 0)"
        return f"tl.sum({chosen}, {layout.index(axis)})"

    def _merge_largest(self, s: Fold, selection: Selection, state: list[str]) -> str:
        rank, axes = selection.axis, s.state[0].axes
        inside = self._order(axes - {rank} | {s.axis})
        listed = self._order(axes)
        x, at = self._whole_tiles(s, inside)
        ranks = self._spread(self._axis(rank), (rank,), listed)
        count = self._size(self.program.axes[rank].extent)
        places = f"{inside.index(s.axis)}, {listed.index(rank)}"
        self.helpers |= {"larger": None, "merge_largest": None}
        return f"merge_largest({', '.join(state)}, {ranks}, {count}, {x}, {at}, {places})"

    def _folded_tile(self, s: Fold, monoid: Combine) -> list[str]:
        """The fields of the elements of a tile, combined in their order."""
        layout = self._order(s.state[0].axes | {s.axis})
        if s.axis not in layout:
            return self._whole_tiles(s, layout)
        if not monoid.commutes:
            return [self._last(x, s.axis, layout) for x in self._scanned(s, monoid, layout)]
        # tl.reduce takes the elements in an order of its own.
        tiles = self._whole_tiles(s, layout)
        together = tiles[0] if len(tiles) == 1 else f"({', '.join(tiles)})"
        found = [self._name("folded", n, f"{n.removesuffix('_new')}_tile") for n in s.names]
        text = f"tl.reduce({together}, {layout.index(s.axis)}, {self._combine(monoid)})"
        self._assign(", ".join(found), text)
        return found

    def _whole_tiles(self, s: Fold, layout: tuple[str, ...]) -> list[str]:
        """Names of the elements' fields, with all axes of a layout."""
        names = []
        for e, folded in zip(s.elements, s.names, strict=True):
            text = self._whole_tile(e, layout)
            names.append(self._name("element", folded, f"{folded.removesuffix('_new')}_{s.axis}"))
            self._assign(names[-1], text)
        return names

    def _combine(self, monoid: Combine) -> str:
        """The name of a monoid's combine function."""
        function = self.function_names[monoid.name]
        if function not in self.functions:
            formulas = type(self)(TileProgram(monoid.name, {}, {}, {}, ()), function)
            formulas.fast = "False"
            operands = ", ".join(map(formulas._local, (*monoid.left, *monoid.right)))
            formulas._body(list(monoid.body))
            results = ", ".join(formulas._text(e) for e in monoid.results)
            formulas._fit("return ", results, "")
            head = ["@triton.jit", f"def {function}({operands}):"]
            what = "commutative " if monoid.commutes else ""
            head.append(f'    """The combine of the {what}monoid {monoid.name}."""')
            self.functions[function] = "\n".join([*head, *formulas.lines])
            self.helpers |= formulas.helpers
        return function
