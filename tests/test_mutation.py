"""What looks for conditions that no test needs."""

from unittest.mock import patch

from tests.mutation import TooLongError, noticed


def test_an_alarm_while_it_is_stopped() -> None:
    """A test that ends when its time does is one that takes too long."""

    def set_timer(which: int, seconds: float) -> None:
        if not seconds:
            raise TooLongError

    with patch("tests.mutation.signal.setitimer", set_timer):
        assert noticed([lambda: None])
    assert not noticed([lambda: None])
