"""The vocabulary of the language: kinds, functions, reductions, words and dtypes."""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["int", "float", "bool"]

# Number of arguments of each built-in function; None: one or more.
FUNCTIONS: dict[str, int | None] = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sign", "floor"), 1),
    **dict.fromkeys(("tanh", "sigmoid", "relu", "silu", "gelu", "erf", "softplus", "elu"), 1),
    **dict.fromkeys(("sin", "cos", "int", "stop"), 1),
    "maximum": 2,
    "minimum": 2,
    "where": 3,
    "uniform": None,
}
_PLAIN_REDUCTIONS = ("sum", "max", "min", "prod", "mean", "var", "any", "all")
REDUCTIONS = (*_PLAIN_REDUCTIONS, "logsumexp", "argmax", "argmin")
KEEPING_REDUCTIONS = ("softmax", "log_softmax")  # they keep their index
LOGARITHM_OF = {"log_softmax": "softmax"}
SELECTIONS = ("top", "argtop")  # top[k -> r](x)
ALL_REDUCTIONS = (*REDUCTIONS, *KEEPING_REDUCTIONS, *SELECTIONS)
_DECLARING = ("input", "param", "index", "def", "monoid", "unit", "combine", "return")
KEYWORDS = frozenset((*_DECLARING, "if", "and", "or", "not", "inf"))
# Of results; "accumulated" is that of sums: float64 where an input is float64, else float32.
DTYPES = ("float16", "bfloat16", "float32", "float64", "accumulated", "int32", "int64", "bool")
