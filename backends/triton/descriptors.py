"""As in `monocomp.blocks`."""

from monocomp.blocks.descriptors import described_loads, is_dense
from monocomp.blocks.program import Block

__all__ = ["Block", "described_loads", "is_dense"]
