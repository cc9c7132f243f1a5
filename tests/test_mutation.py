"""What looks for conditions that no test needs."""

from monocomp.derivation.rule_sets import RULES
from monocomp.rewriting.equations import Equation
from tests.mutation import NAMES


def test_every_rule_loses_its_conditions() -> None:
    """Where it is a function; the needs of an equation are left out one by one elsewhere."""
    functions = [rule.apply for rule in RULES.values() if not isinstance(rule, Equation)]
    homes = {apply.__module__.rpartition(".")[2] for apply in functions}
    assert homes <= {*NAMES}
