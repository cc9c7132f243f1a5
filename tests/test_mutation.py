"""What looks for conditions that no test needs."""

from unittest.mock import patch

from monocomp.derivation.rule_sets import RULES
from tests.mutation import NAMES, TooLongError, noticed


def test_every_rule_loses_its_conditions() -> None:
    homes = {rule.apply.__module__.rpartition(".")[2] for rule in RULES.values()}
    assert homes <= {*NAMES}


def test_an_alarm_while_it_is_stopped() -> None:
    """A test that ends when its time does is one that takes too long."""

    def set_timer(which: int, seconds: float) -> None:
        if not seconds:
            raise TooLongError

    with patch("tests.mutation.signal.setitimer", set_timer):
        assert noticed([lambda: None])
    assert not noticed([lambda: None])
