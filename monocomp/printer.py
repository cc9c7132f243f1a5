"""Moved to `monocomp.terms.printer`."""

from monocomp.terms.printer import *  # noqa: F403
