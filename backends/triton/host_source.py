"""Host programs as the host functions of emitted files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monocomp.backends.identifiers import Identifiers
from monocomp.backends.line_breaks import fill, fit, tuple_text
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.terms.equations import Equations

# Names that the function uses itself.
HOST_NAMES = frozenset(
    ("config", "configs", "fast", "name", "precision", "programs", "shape", "t", "tensor", "wide")
) | {"TensorDescriptor", "dtypes", "empty", "grid", "operands"}


class HostSource:
    """Writes the function.

    Args:
        start: the program before any rewrite, for parameters and the docstring.
        host: the host program.
        names: those of the file.
        configs: the names of the schedules, one a kernel.
    """

    empty = "empty"  # what allocates

    def __init__(
        self, start: Equations, host: H.HostProgram, names: Identifiers, configs: Sequence[str]
    ) -> None:
        self.start, self.host = start, host
        self.names = names
        self.configs = configs
        self.out: list[str] = []
        self.depth = 0  # of loops
        self.known = host.known
        self.described: dict[str, dict[str, None]] = {}

    @property
    def device(self) -> str:
        """Return the device of the first input."""
        return f"{self.tensor(next(iter(self.start.declared.inputs)))}.device"

    def name(self, purpose: str, name: str, wanted: str | None = None) -> str:
        """Return the identifier of a name used for a purpose."""
        return self.names.of(purpose, name, wanted)

    def tensor(self, name: str) -> str:
        return self.names.of("tensor", name)

    def size(self, extent: str) -> str:
        """Return a size, or the number that it is known to be."""
        if extent in self.known:
            return str(self.known[extent])
        return self.names.of("host size", extent, f"size_{extent.lstrip('.')}")

    def param(self, name: str) -> str:
        return self.names.of("param", name)

    def tuple(self, items: Iterable[str]) -> str:
        """Return a tuple of expressions."""
        return tuple_text([*items])

    def setting(self, name: str, kernel: int | None = None) -> str:
        """Write a setting of a kernel's schedule; None stands for the kernel to be launched."""
        return f'config["{name}"]' if kernel is None else f'configs[{kernel}]["{name}"]'

    def put(self, text: str, indent: int = 1) -> None:
        self.out.append("    " * (indent + self.depth) + text if text else "")

    def fit(self, before: str, text: str, after: str = "", indent: int = 1) -> None:
        self.out += fit(before, text, after, indent + self.depth)

    def call(self, function: str, arguments: Iterable[str]) -> None:
        """Add a call that has many arguments."""
        self.out += fill(f"{function}(", [*arguments], ")", 1 + self.depth)

    def lines(self, host: str, precision: str) -> list[str]:
        """Return the function."""
        declared = self.start.declared
        keywords = [*self.params(), f"configs={tuple_text(self.configs)}"]
        keywords += [f'precision="{precision}"', "empty=torch.empty", "launch=launch"]
        tensors = map(self.tensor, declared.inputs)
        self.out = fill(f"def {host}(", [*tensors, "*", *keywords], "):", 0)
        self._doc()
        for s in self.host.body:
            self.statement(s)
        return self.out

    def params(self) -> list[str]:
        """Return the parameters with their defaults."""
        params = []
        for p in self.start.declared.params.values():
            default = "" if p.default is None else f"={_number(p.default)}"
            params.append(f"{self.param(p.name)}{default}")
        return params

    def purpose(self) -> str:
        """Return the first line of the docstring."""
        outs = [f"{e.name} ({', '.join(i.name for i in e.indices)})" for e in self.start.outputs]
        return f"Computes {', '.join(outs)}."

    def _doc(self) -> None:
        self.put(f'"""{self.purpose()}')
        self.put("")
        self.put("Args:")
        for i in self.start.declared.inputs.values():
            dims = ", ".join(d.lstrip(".") for d in i.dims)
            self.put(f"{i.name} ({dims}).", 2)
        self.put("configs: block lengths, warps, stages and order of each kernel.", 2)
        self.put('precision: of float32 products, "ieee" or "tf32".', 2)
        self.put("empty, launch: how tensors are allocated and kernels run.", 2)
        self.put('"""')

    def statement(self, s: A.Statement) -> None:
        """Add a statement of the host program."""
        s.write(self)


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)
