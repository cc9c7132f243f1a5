"""The interface of whoever writes host programs as functions of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class Writer(Protocol):
    """Writes a function, line by line.

    Attributes:
        empty: what allocates.
        described: the names of the descriptors that have been made of each tensor.
        depth: of loops.
    """

    empty: str
    described: dict[str, dict[str, None]]
    depth: int

    @property
    def known(self) -> Mapping[str, int]:
        """Return the sizes that are numbers."""

    @property
    def device(self) -> str:
        """Return the device of the inputs."""

    def name(self, purpose: str, name: str, wanted: str | None = None) -> str:
        """Return the identifier of a name used for a purpose."""

    def tensor(self, name: str) -> str: ...
    def size(self, extent: str) -> str: ...
    def param(self, name: str) -> str: ...
    def setting(self, name: str, kernel: int | None = None) -> str:
        """Return a setting of a kernel's schedule; None stands for the kernel to be launched."""

    def tuple(self, items: Iterable[str]) -> str:
        """Return a tuple of expressions."""

    def put(self, text: str, indent: int = 1) -> None:
        """Add a line."""

    def fit(self, before: str, text: str, after: str = "", indent: int = 1) -> None:
        """Add an expression between other text, on as many lines as it takes."""

    def call(self, function: str, arguments: Iterable[str]) -> None:
        """Add a call that has many arguments."""

    def statement(self, s: Any) -> None:
        """Add a statement of a host program."""
