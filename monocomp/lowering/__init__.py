"""Lowering: equations in lifted normal form become tile programs.

Every value is computed in the outermost scope in which the indices that it varies with
are at hand, so what the stream does not touch leaves the loop. Folds at the same depth
over the same domain share one loop, and folds in SE with the same exponents share its
frame (see `rewrites.pullback`). Exponentials are taken to base 2, with the constants that
stand in front of the exponent folded into one factor outside the loop.
"""
