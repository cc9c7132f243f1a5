"""As in `monocomp.blocks`."""

from monocomp.blocks.operands import Operands, has_float, unconverted

__all__ = ["Operands", "has_float", "unconverted"]
