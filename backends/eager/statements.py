"""Equations as statements, with a statement for each fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monocomp import terms as T
from monocomp.backends.eager.code import TYPES, Code, comment_lines
from monocomp.backends.eager.terms import Terms, shared_terms
from monocomp.backends.line_breaks import fill, fit, tuple_text
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS, LOGARITHM_OF
from monocomp.errors import InternalError, UnsupportedError
from monocomp.terms import Term
from monocomp.terms.printer import definition_line

_METHODS = {"max": "amax", "min": "amin"}
_LEAST, _LARGEST = "torch.iinfo(torch.int64).min", "torch.iinfo(torch.int64).max"
# The unit of each fold over floats (or conditions), and over ints.
_UNITS = {
    "sum": ("0.0", "0"),
    "prod": ("1.0", "1"),
    "max": ("-torch.inf", _LEAST),
    "min": ("torch.inf", _LARGEST),
    "any": ("False", "False"),
    "all": ("True", "True"),
    "argmax": ("-torch.inf", _LEAST),
    "argmin": ("torch.inf", _LARGEST),
    "logsumexp": ("-torch.inf", "-torch.inf"),
}


class Body(Terms):
    """Writes one equation, or a user monoid's combine function."""

    def lines(self) -> list[str]:
        """Return the equation: a comment that states it, its indices, and the assignments."""
        assert self.equation is not None
        e, scope = self.equation, self.scope
        names = [i.name for i in e.indices]
        for i in e.indices:
            self.axis(i)
        code = self.code(e.body)
        target = scope.identifiers[e.name]
        sizes = [scope.size(i.extent) for i in e.indices]
        if code.number:
            dims = tuple_text(sizes)
            kind = f"dtype={TYPES[e.body.kind]}"
            value = self.call("torch.full", dims, code, kind, f"device={scope.device}")
        else:
            value = self.call(scope.helper("tabulate"), code, *sizes)
        last = fit(f"{target} = ", value.text, "", 1)
        comment = comment_lines(definition_line(e.name, names, e.body, scope.equations.names()))
        return [*comment, *self._index_line(), *self.statements, *last]

    def _index_line(self) -> list[str]:
        if not self.axes:
            return []
        names = [self.scope.index(name) for name in self.axes]
        target = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        sizes = [self.scope.size(i.extent) for i in self.axes.values()]
        opened = self.call(self.scope.helper("open_indices"), *sizes, f"device={self.scope.device}")
        return fit(f"{target} = ", opened.text, "", 1)

    def monoid(self, monoid: T.UserMonoid) -> tuple[str, str]:
        """Return the names of a monoid's combine function and unit, which are defined at the
        top."""
        scope = self.scope
        if monoid.name not in scope.monoids:
            names = scope.fresh(f"combine_{monoid.name}"), scope.fresh(f"unit_{monoid.name}")
            scope.monoids[monoid.name] = names
            lines = Body(scope, None).monoid_lines(monoid, *names)
            scope.monoid_lines += ["", *lines] if scope.monoid_lines else lines
        return scope.monoids[monoid.name]

    def monoid_lines(self, monoid: T.UserMonoid, combine: str, unit: str) -> list[str]:
        """Return a monoid's combine function and its unit."""
        scope = self.scope
        units = [Body(scope, None).code(u).text for u in monoid.unit]
        unbounded = any(map(self.facts.is_unbounded, monoid.unit))
        lefts, rights = [], []
        for name in monoid.fields:
            self.fields[name] = scope.fresh(f"left_{name}")
            self.fields[name + "'"] = scope.fresh(f"right_{name}")
            lefts.append(self.fields[name])
            rights.append(self.fields[name + "'"])
        outside = self.facts.fields
        self.facts.fields = dict.fromkeys(self.fields, unbounded)
        self.indent, self.shared = 2, shared_terms(*monoid.combine)
        results = [self.tensor(self.code(c), "float").text for c in monoid.combine]
        self.facts.fields = outside
        out = fill(f"def {combine}(", [*lefts, *rights], "):", 1)
        out += self.statements
        out += fit("return ", tuple_text(results), "", 2)
        made = self.call("torch.tensor", tuple_text(units), "dtype=dtype", f"device={scope.device}")
        return [*out, "", *fit(f"{unit} = ", made.text, "", 1)]

    # Folds

    def open(self, t: Term, avoid: Iterable[str] = ()) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Return a fold's bound indices under names of the program, its condition and bodies."""
        taken = {*t.free, *avoid}
        names = []
        for extent in t.attr.extents:
            names.append(next(n for n in self.scope.index_names(extent) if n not in taken))
            taken.add(names[-1])
        opened, parts = T.open_as(t, names)
        for i in opened:
            self.axis(i)
        return opened, parts

    def admitted(self, condition: Term, opened: tuple[Term, ...], *bodies: Term) -> Code | None:
        """Return a condition that has all the axes which the bodies lack; None: it always holds."""
        present = condition.free.union(*(b.free for b in bodies))
        missing = [i for i in opened if i.name not in present]
        if condition is T.TRUE and not missing:
            return None
        return self.tensor(self.code(over(condition, *missing)), "bool")

    def elements(self, condition: Code | None, x: Code, unit: str) -> Code:
        """Return the elements, the unit in the place of those that are not admitted."""
        return x if condition is None else self.choose(condition, x, Code(unit, number=True))

    def fold(self, t: Term) -> Code:
        if t.op == "field":
            monoid: T.UserMonoid = t.args[0].attr.monoid
            return self._fields(t.args[0])[monoid.fields.index(t.attr)]
        if t.op == "fold_at":
            return self._fold_at(t)
        return self._fold(t)

    def _fold(self, t: Term) -> Code:
        if isinstance(t.attr.monoid, T.UserMonoid):
            return self._fields(t)[0]
        name = t.attr.name
        opened, (condition, *bodies) = self.open(t)
        if len(bodies) != 1:
            raise InternalError(f"{name} of {len(bodies)} elements")
        (body,) = bodies
        if self.scope.contracts and name == "sum" and body.op == "mul" and body.kind == "float":
            return self._contraction(condition, opened, body)
        x = self.tensor(self.code(body), body.kind)
        admitted = self.admitted(condition, opened, body)
        axes = sorted(map(self.axis, opened))
        dims = str(axes[0]) if len(axes) == 1 else "(" + ", ".join(map(str, axes)) + ")"
        if name in ("mean", "var"):
            if admitted is not None:  # counted over all axes
                admitted = self.assign("admitted", self.code(over(condition, *opened)))
            return self._moment(name, x, admitted, dims)
        x = self.elements(admitted, x, _UNITS[name][body.kind == "int"])
        if name == "prod":
            for axis in axes:
                x = self.method(x, "prod", str(axis), "keepdim=True")
            return self.assign(name, x)
        return self.assign(name, self.method(x, _METHODS.get(name, name), dims, "keepdim=True"))

    def _contraction(self, condition: Term, opened: tuple[Term, ...], body: Term) -> Code:
        """Return a sum of a product; what is not admitted is 0 in the factor that varies most."""
        widest = max(body.args, key=lambda factor: len(factor.free))
        factors = [self.tensor(self.code(f), "float") for f in (*body.args,)]
        admitted = self.admitted(condition, opened, body)
        n = body.args.index(widest)
        factors[n] = self.elements(admitted, factors[n], "0.0")
        axes = tuple_text([str(axis) for axis in sorted(map(self.axis, opened))])
        return self.assign("sum", self.call(self.scope.helper("contract"), axes, *factors))

    def _moment(self, name: str, x: Code, admitted: Code | None, dims: str) -> Code:
        """mean and var: over nothing they are 0."""
        if admitted is None:
            correction = () if name == "mean" else ("correction=0",)
            return self.assign(name, self.method(x, name, dims, *correction, "keepdim=True"))
        counted = self.method(admitted, "sum", dims, "keepdim=True")
        count = self.assign("count", self.method(counted, "clamp", "min=1"))

        def mean(elements: Code) -> Code:
            chosen = self.elements(admitted, elements, "0.0")
            total = self.method(chosen, "sum", dims, "keepdim=True")
            return self.infix("/", total, count)

        center = self.assign("mean", mean(x))
        if name == "mean":
            return center
        deviation = self.infix("-", x, center)
        return self.assign("var", mean(self.infix("**", deviation, Code("2"))))

    def _fold_at(self, t: Term) -> Code:
        position, name = t.args[0], t.attr.name
        if position.op != "index":
            raise UnsupportedError(f"{name} at a computed position is not part of the self-check")
        if isinstance(t.attr.monoid, T.UserMonoid):
            return self._fields(t)[0]
        if name in ("top", "argtop"):
            return self._top(t)[int(name == "argtop")]
        if name in KEEPING_REDUCTIONS:
            return self._softmax(t)
        # A prefix: the fold over those up to the position.
        (i,), (condition, *bodies) = self.open(t)
        if condition is T.FALSE:
            condition = over(condition, i)
        until = T.conjunction(condition, T.compare("<=", i, position))
        return self.code(T.fold(name, (i,), until, *bodies))

    def open_at(self, t: Term) -> tuple[Term, ...]:
        """Return the condition and bodies of a fold that keeps its index, at its position."""
        position = t.args[0]
        if any(position.name in part.free for part in t.args[1:]):
            raise UnsupportedError(f"{t.attr.name} at another index is not part of the self-check")
        self.axis(position)
        return T.open_as(t, [position.name])[1]

    def _softmax(self, t: Term) -> Code:
        condition, body = self.open_at(t)
        position, name = t.args[0], t.attr.name
        x = self.tensor(self.code(body), "float")
        logits = self.elements(self.admitted(condition, (position,), body), x, "-torch.inf")
        logits = self.assign("logits", logits)
        masked = Code(f"{logits.text} == -torch.inf")
        result = self.method(logits, name, str(self.axis(position)))
        unit = Code("-torch.inf" if name in LOGARITHM_OF else "0.0")
        return self.assign(name, self.choose(masked, unit, result))

    def _top(self, t: Term) -> list[Code]:
        position = t.args[0]
        (i,), (condition, body) = self.open(t, avoid=(position.name,))
        key = (condition, body, position)  # top and argtop come from one sort
        if key not in self.folded:
            x = self.tensor(self.code(body), "float")
            x = self.elements(self.admitted(condition, (i,), body), x, "-torch.inf")
            axes = f"{self.axis(i)}", f"{self.axis(position)}"
            count = self.scope.size(position.extent)
            self.folded[key] = self.unpack(["top", "argtop"], "top", x, *axes, count)
        return self.folded[key]

    def unpack(self, wanted: Sequence[str], helper: str, *args: Code | str) -> list[Code]:
        """Return names for the parts of the tuple that a helper returns."""
        names = [self.scope.numbered(w) for w in wanted]
        target = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        made = self.call(self.scope.helper(helper), *args)
        self.statements += fit(f"{target} = ", made.text, "", self.indent)
        return [Code(n) for n in names]

    def _fields(self, t: Term) -> list[Code]:
        """Return a user monoid's aggregate, all its fields."""
        code = self.folded.get(t)
        if code is None:
            self.folded[t] = code = self._fold_left(t)
        return code

    def _fold_left(self, t: Term) -> list[Code]:
        monoid: T.UserMonoid = t.attr.monoid
        combine, unit = self.monoid(monoid)
        if t.op == "fold_at":
            opened: tuple[Term, ...] = (t.args[0],)
            condition, *bodies = self.open_at(t)
        else:
            opened, (condition, *bodies) = self.open(t)
        elements = self.tensors(bodies)
        admitted = self.code(over(condition, *opened))
        last = ["prefix=True"] if t.op == "fold_at" else []
        for i in reversed(opened):  # row by row, as combining is associative
            how = combine, unit, str(self.axis(i))
            elements = self.unpack(monoid.fields, "fold_left", *how, admitted, *elements, *last)
            admitted = self.code(over(T.TRUE, opened[0]))
        return elements


def over(condition: Term, *indices: Term) -> Term:
    """Return the same condition, written so that it has the axes of these indices."""
    within = [T.compare("<", i, T.extent_of(i.extent)) for i in indices]
    if condition is T.FALSE and indices:
        return T.conjunction(*map(T.negate, within))
    return T.conjunction(condition, *within)
