"""The dialects that kernels are emitted in, by name: a new one is added here."""

from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.dialect import TRITON

DIALECTS = {d.name: d for d in (TRITON, GLUON)}
