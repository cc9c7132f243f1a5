"""Programs of which a kernel stores values that another one reads."""

from __future__ import annotations

_PHI = "def phi(x) = elu(x) + 1\n"
_SCORES = "S[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)\n"

PROGRAMS = {
    # The normaliser of a row is needed in the loop over rows that each column runs.
    "column sums": _SCORES + "C[h,k] = sum[q](softmax[k if k <= q](S[h,q,k]))",
    # The kernel for the rows stores it beside its own results.
    "rows and columns": (
        _SCORES + "O[h,q,e] = softmax[k](S[h,q,k]) * V[h,k,e]\n"
        "C[h,k] = sum[q](softmax[k](S[h,q,k]))"
    ),
    # Rows without a key have a sum of 0, and what is divided by it is 0.
    "lengths": (
        "input len[q]: int\nS[q,k] = Q[q,d] * K[k,d]\n"
        "C[k] = sum[q](softmax[k if k < len[q]](S[q,k]))"
    ),
    "talking heads": (
        "T[h,q,k] = W[g,h] * (Q[g,q,d] * K[g,k,d])\n"
        "O[q,i,e] = (U[h,i] * softmax[k](T[h,q,k])) * V[k,i,e]"
    ),
    # What does not vary with the query is summed once for all of them, in one kernel.
    "linear attention": (
        _PHI + "N[h,d,e] = phi(K[h,k,d]) * V[h,k,e]\n"
        "Z[h,d] = sum[k](phi(K[h,k,d]))\n"
        "O[h,q,e] = sum[d](phi(Q[h,q,d]) * N[h,d,e]) / sum[d](phi(Q[h,q,d]) * Z[h,d])"
    ),
    # The gradients of attention: what the rows need is computed with dQ, for dK and dV.
    "gradients": (
        _SCORES + "P[h,q,k] = softmax[k](S[h,q,k])\n"
        "dP[h,q,k] = dO[h,q,e] * V[h,k,e]\n"
        "dS[h,q,k] = P[h,q,k] * (dP[h,q,k] - sum[k](P[h,q,k] * dP[h,q,k]))\n"
        "dQ[h,q,d] = dS[h,q,k] * K[h,k,d]\n"
        "dK[h,k,d] = dS[h,q,k] * Q[h,q,d]\n"
        "dV[h,k,e] = P[h,q,k] * dO[h,q,e]\n"
        "return dQ, dK, dV"
    ),
    # Integers and truth values.
    "integers and truth values": (
        "input X[k,i], N[k,i]: int, W[j,i]\n"
        "A[i] = where(any[k](X[k,i] > 2), max[k](N[k,i]), |k|)\nO[j] = sum[i](A[i] * W[j,i])"
    ),
    # A row is read where another tensor says, and its norm is read there, too.
    "computed positions": (
        "input X[j,c], position[i,k]: int\nN[j] = sum[c](X[j,c] ** 2)\n"
        "O[i] = sum[k](Y[i,k] / (1 + N[position[i,k]]))"
    ),
    # The maximum of a row is an output, and needed for every column.
    "maxima": (
        "T[i,j] = X[i,c] * Y[j,c]\nR[i] = max[j](T[i,j])\n"
        "C[j] = sum[i](relu(T[i,j] - R[i] / 2))\nreturn R: bfloat16, C"
    ),
    # A product that costs more to compute again than to read, and is no larger than an input.
    "long products": (
        "input X[i,c], Y[c,j]\nT[i,j] = X[i,c] * Y[c,j]\n"
        "R[i] = max[j](T[i,j])\nC[j] = max[i](T[i,j])"
    ),
    # Every head weighs the channels of all pairs of positions: together that is a matrix product.
    "a bias a head": (
        "B[h,q,k] = Z[q,k,c] * W[c,h]\nS[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)\n"
        "O[h,q,e] = softmax[k](S[h,q,k] + B[h,q,k]) * V[h,k,e]"
    ),
}
