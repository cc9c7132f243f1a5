"""What looks for conditions that no test needs."""

from unittest.mock import patch

from monocomp.derivation.rule_sets import RULES
from monocomp.rewriting.equations import Equation
from tests.mutation import NAMES, TooLongError, noticed


def test_every_rule_loses_its_conditions() -> None:
    """Where it is a function; the needs of an equation are left out one by one elsewhere."""
    functions = [rule.apply for rule in RULES.values() if not isinstance(rule, Equation)]
    homes = {apply.__module__.rpartition(".")[2] for apply in functions}
    assert homes <= {*NAMES}


def test_an_alarm_while_it_is_stopped() -> None:
    """A test that ends when its time does is one that takes too long."""

    def set_timer(which: int, seconds: float) -> None:
        if not seconds:
            raise TooLongError

    with patch("tests.mutation.signal.setitimer", set_timer):
        assert noticed([lambda: None])
    assert not noticed([lambda: None])
