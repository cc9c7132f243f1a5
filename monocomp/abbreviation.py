"""Moved to `monocomp.terms.abbreviation`."""

from monocomp.terms.abbreviation import *  # noqa: F403
