"""See `monocomp.planning.report`."""

from monocomp.planning.report import report

__all__ = ["report"]
