"""See `monocomp.planning.sizes`."""

from monocomp.planning.sizes import LONG, SHORT, nominal_sizes, power_of_two, without_elements

__all__ = ["LONG", "SHORT", "nominal_sizes", "power_of_two", "without_elements"]
