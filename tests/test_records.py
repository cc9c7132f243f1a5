"""Records are dataclasses, whose methods are made when they are used."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from dataclasses import field, fields, replace
from typing import Generic, TypeVar

import pytest

from monocomp.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """Two parts."""

    first: T
    second: list[T] = field(default_factory=list, compare=False)
    third: int = field(default=3)

    def sides(self) -> int:
        return 2


@dataclass(frozen=True)
class Triple(Pair[int]):
    fourth: int = 7

    def __post_init__(self) -> None:
        if not self.fourth:
            raise ValueError("no fourth")

    def sides(self) -> int:
        return super().sides() + 1


@dataclass(frozen=True)
class Pickled:
    part: int


@dataclass
class Open:
    part: int = 1


@dataclass(frozen=True, eq=False)
class Itself:
    part: int = 1


@dataclass(frozen=True)
class Alike:  # noqa: PLW1641 - it is made
    part: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)


def test_fields_of_a_class_without_records() -> None:
    assert [f.name for f in fields(Triple)] == ["first", "second", "third", "fourth"]
    assert Pair.third == 3
    assert not hasattr(Pair, "second")
    assert Pair.__doc__ == "Two parts."


def test_records_are_compared_hashed_and_shown_by_their_fields() -> None:
    assert Triple(1, [2]) == Triple(1, [3]) != Triple(2)
    assert hash(Triple(1)) == hash(Triple(1))
    assert str(Triple(1)) == "Triple(first=1, second=[], third=3, fourth=7)"
    assert replace(Triple(1), fourth=9).fourth == 9
    assert Triple(1).sides() == 3
    assert Triple(1) != Pair(1)
    match Triple(1):
        case Triple(first, _, third):
            assert (first, third) == (1, 3)


def test_options_are_those_of_dataclasses() -> None:
    assert Open() == Open()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())
    assert Itself() != Itself()
    assert Itself.__hash__ is object.__hash__
    assert Alike(1) == Alike(2)
    with pytest.raises(ValueError, match="no fourth"):
        Triple(1, fourth=0)
    with pytest.raises(TypeError, match=r"Triple.__init__\(\) missing 1 required"):
        Triple()  # type: ignore[call-arg]


def test_a_record_that_is_unpickled_first_is_equal_to_one_that_is_made() -> None:
    one = object.__new__(Pickled)
    vars(one)["part"] = 5
    assert hash(one) == hash(Pickled(5))
    assert pickle.loads(pickle.dumps(one)) == one


def test_threads_make_the_methods_once() -> None:
    @dataclass(frozen=True)
    class Shared:
        part: int

    gate = threading.Barrier(8)
    made = []

    def make() -> None:
        gate.wait()
        made.append(Shared(1))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({hash(r) for r in made}) == 1
    assert len(made) == 8
    assert dataclasses.is_dataclass(Shared)
