# ruff: noqa: E501 (messages stand here as they are printed)
"""What a wrong program is told: the whole text of each message, and that nothing else escapes."""

from __future__ import annotations

import inspect
import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monocomp.errors import LimitError, MonocompError, ParseError, UsageError
from monocomp.language.checker import check

CASES = {
    "a character that means nothing": (
        "O[i] = A[i] $ 2",
        """
        ParseError: '$' has no meaning here (line 1, column 13)
            O[i] = A[i] $ 2
                        ^
        """,
    ),
    "a bracket that is not closed": (
        "O[i] = sum[k](A[i,k]\nP[i] = A[i,0]",
        """
        ParseError: '(' is never closed (line 1, column 14)
            O[i] = sum[k](A[i,k]
                         ^
          help: write O[i] = sum[k](A[i,k])
        """,
    ),
    "a bracket closed by another": (
        "O[i] = sum[k](A[i,k])]",
        """
        ParseError: ']' closes nothing (line 1, column 22)
            O[i] = sum[k](A[i,k])]
                                 ^
          help: write O[i] = sum[k](A[i,k])
        """,
    ),
    "brackets that cross": (
        "O[i] = exp(A[i)]",
        """
        ParseError: ')' does not close '[' (line 1, column 15)
            O[i] = exp(A[i)]
                        ^ ^
          help: write O[i] = exp(A[i])
        """,
    ),
    "a missing operator": (
        "S[i,j] = sum[d](Q[i,d] K[j,d])",
        """
        ParseError: expected '*' or another operator before 'K' (line 1, column 24)
            S[i,j] = sum[d](Q[i,d] K[j,d])
                                   ^
          help: write S[i,j] = sum[d](Q[i,d] * K[j,d])
        """,
    ),
    "a missing operator after a number": (
        "S[i,j] = 2 Q[i,j]",
        """
        ParseError: expected '*' or another operator before 'Q' (line 1, column 12)
            S[i,j] = 2 Q[i,j]
                       ^
          help: write S[i,j] = 2 * Q[i,j]
        """,
    ),
    "a missing operator between parentheses": (
        "S[i,j] = (Q[i,j]) (Q[i,j] + 1)",
        """
        ParseError: expected '*' or another operator before '(' (line 1, column 19)
            S[i,j] = (Q[i,j]) (Q[i,j] + 1)
                              ^
          help: products are written out: (Q[i,j]) * (Q[i,j] + 1)
        """,
    ),
    "a missing operator or comma": (
        "O[i] = maximum(A[i] B[i])",
        """
        ParseError: expected ',', '*' or another operator before 'B' (line 1, column 21)
            O[i] = maximum(A[i] B[i])
                                ^
          help: products are written out: A[i] * B[i]
        """,
    ),
    "a missing comma": (
        "O[i,j] = A[i j]",
        """
        ParseError: expected ',' between 'i' and 'j' (line 1, column 14)
            O[i,j] = A[i j]
                         ^
          help: write i, j
        """,
    ),
    "a reduction without its parenthesis": (
        "O[i] = sum[k] A[i,k]",
        """
        ParseError: 'sum[k]' lacks its operand before 'A' (line 1, column 15)
            O[i] = sum[k] A[i,k]
                          ^
          help: write O[i] = sum[k](A[i,k])
        """,
    ),
    "a value missing at the end": (
        "O[i] = A[i] +",
        """
        ParseError: expected a value after '+', before the end of the program (line 1, column 14)
            O[i] = A[i] +
                         ^
        """,
    ),
    "an operator without its left side": (
        "O[i] = * A[i]",
        """
        ParseError: expected a value after '=', before '*' (line 1, column 8)
            O[i] = * A[i]
                   ^
        """,
    ),
    "an operator at the start of a line": (
        "O[i] = A[i]\n  + 2",
        """
        ParseError: a statement cannot start with '+' (line 2, column 3)
              + 2
              ^
          help: a line goes on when it ends in an operator: move '+' up
        """,
    ),
    "empty brackets": (
        "O[] = A[i]",
        """
        ParseError: the brackets are empty (line 1, column 3)
            O[] = A[i]
              ^
          help: write O = A[i]
        """,
    ),
    "an unknown statement": (
        "inputs Q[i]",
        """
        ParseError: no statement starts with 'inputs Q' (line 1, column 1)
            inputs Q[i]
            ^^^^^^
          help: did you mean 'input'? input Q[b,q,d], mask[q,k]: bool
        """,
    ),
    "an assignment inside an expression": (
        "O[i] = where(A[i] = 3, 1, 2)",
        """
        ParseError: '=' stands inside an expression (line 1, column 19)
            O[i] = where(A[i] = 3, 1, 2)
                              ^
          help: equality is ==; one definition per statement
        """,
    ),
    "a comparison for a definition": (
        "O[i] == A[i]",
        """
        ParseError: an expression stands alone; a program is a list of definitions (line 1, column 1)
            O[i] == A[i]
            ^^^^^^^^^^^^
          help: write O[i] = A[i]
        """,
    ),
    "no definition": (
        "A[i] * 3",
        """
        ParseError: an expression stands alone; a program is a list of definitions (line 1, column 1)
            A[i] * 3
            ^^^^^^^^
          help: give it a name and its indices: O[...] = ...
        """,
    ),
    "a computed left side": (
        "O[i+1] = A[i]",
        """
        ParseError: the left side takes names of indices, and this is an expression (line 1, column 3)
            O[i+1] = A[i]
              ^^^
          help: an index is a name, such as k in A[q,k]
        """,
    ),
    "a choice written with if": (
        "O[i] = A[i] if i < 3 else 2",
        """
        ParseError: 'if' belongs in the brackets of a reduction (line 1, column 13)
            O[i] = A[i] if i < 3 else 2
                        ^^
          help: write O[i] = where(i < 3, A[i], 2)
        """,
    ),
    "a slice": (
        "O[i] = A[1:3]",
        """
        ParseError: ':' has no meaning in brackets; there are no slices (line 1, column 11)
            O[i] = A[1:3]
                      ^
          help: choose elements with a filter, sum[k if k < 3](x), or a subscript, A[k + 1]
        """,
    ),
    "an extent of an expression": (
        "O[i] = |A[i]|",
        """
        ParseError: '|...|' takes the name of an index (line 1, column 10)
            O[i] = |A[i]|
                     ^
          help: |k| is its extent; abs(x) the absolute value
        """,
    ),
    "a parameter without type": (
        "param x = 3\nO[i] = A[i] * x",
        """
        ParseError: parameter 'x' needs a type, int or float (line 1, column 7)
            param x = 3
                  ^
          help: write param x: float
        """,
    ),
    "an unknown type": (
        "param x: complex = 3",
        """
        ParseError: 'complex' is no type here (line 1, column 10)
            param x: complex = 3
                     ^^^^^^^
          accepted: int, float
        """,
    ),
    "a default of another type": (
        "param x: int = 3.5",
        """
        TypeMismatchError: parameter 'x' is an int, and its default is not (line 1, column 16)
            param x: int = 3.5
                           ^^^
          help: write param x: float = ..., or an integer
        """,
    ),
    "a malformed index line": (
        "index k = 4",
        """
        ParseError: expected '<' before '=' (line 1, column 9)
            index k = 4
                    ^
          help: the form is index k < |n| * |s|
        """,
    ),
    "a malformed function": (
        "def f x = 3",
        """
        ParseError: expected '(' before 'x' (line 1, column 7)
            def f x = 3
                  ^
          help: the form is def f(x, c) = c * tanh(x / c)
        """,
    ),
    "a malformed monoid": (
        "monoid M(a) = unit 0",
        """
        ParseError: expected ',' or an operator before the end of the program (line 1, column 21)
            monoid M(a) = unit 0
                                ^
          help: the form is monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        """,
    ),
    "brackets after return": (
        "O[i] = A[i]\nreturn O[i]",
        """
        ParseError: 'return' names definitions without brackets (line 2, column 9)
            return O[i]
                    ^
          help: write return O, L: float32
        """,
    ),
    "a letter outside ASCII": (
        "O[i] = α * A[i]",
        """
        ParseError: names are made of ASCII letters, digits and underscores (line 1, column 8)
            O[i] = α * A[i]
                   ^
          found '\\u03b1' (GREEK SMALL LETTER ALPHA)
          help: write alpha
        """,
    ),
    "an operator outside ASCII": (
        "O[i] = A[i] × 2",
        """
        ParseError: '×' has no meaning here (line 1, column 13)
            O[i] = A[i] × 2
                        ^
          help: write O[i] = A[i] * 2
        """,
    ),
    "a word of the language as a name": (
        "O[i] = A[return]",
        """
        ReservedNameError: 'return' is a word of the language and cannot be a name (line 1, column 10)
            O[i] = A[return]
                     ^^^^^^
          help: choose another name, such as 'return_'
        """,
    ),
    "a built-in function as a name": (
        "index exp < 4\nO[exp] = A[exp]",
        """
        ReservedNameError: 'exp' is a built-in function and cannot name anything else (line 1, column 7)
            index exp < 4
                  ^^^
          help: choose another name, such as 'exp_'
        """,
    ),
    "a tensor that no line declares, called like a function": (
        "O[q,d] = X[q,d] * cos[q,d]",
        """
        UnknownNameError: 'cos' is a function, and no tensor is declared by this name (line 1, column 19)
            O[q,d] = X[q,d] * cos[q,d]
                              ^^^
          help: a call has parentheses, cos(x); a tensor is declared: input cos[q,d]
        """,
    ),
    "an ellipsis": (
        "O[..., q] = A[..., q]",
        """
        ParseError: '...' stands for no indices: each dimension has an index of its own (line 1, column 3)
            O[..., q] = A[..., q]
              ^^^
          help: name them, O[b,h,q] = A[b,h,q]; a prefix has two points, sum[..k](x)
        """,
    ),
    "a built-in reduction as a name": (
        "input sum[k]",
        """
        ReservedNameError: 'sum' is a built-in reduction and cannot name anything else (line 1, column 7)
            input sum[k]
                  ^^^
          help: choose another name, such as 'sum_'
        """,
    ),
    "an output index that the right lacks": (
        "O[i,f] = sum[j](P[i,j] * V[j,e])",
        """
        UnknownIndexError: output index 'f' does not occur on the right-hand side (line 1, column 5)
            O[i,f] = sum[j](P[i,j] * V[j,e])
                ^
          available for the output: i, e
          help: did you mean 'e'?
        """,
    ),
    "two definitions of one name": (
        "O[i] = A[i]\nO[i] = B[i]",
        """
        DuplicateNameError: 'O' is defined twice (line 2, column 1)
            O[i] = A[i]
            ^
            O[i] = B[i]
            ^
          the first 'O' is a definition, on line 1
          help: give each its own name
        """,
    ),
    "an index and a tensor of one name": (
        "O[i] = d[i] * A[i,d]",
        """
        DuplicateNameError: 'd' is an index and also an input (line 1, column 19)
            O[i] = d[i] * A[i,d]
                   ^          ^
          help: give one of the two another name
        """,
    ),
    "a name used too early": (
        "O[i] = P[i]\nP[i] = A[i]",
        """
        UnknownNameError: 'P' is used before it is defined (line 1, column 8)
            O[i] = P[i]
                   ^^^^
            P[i] = A[i]
            ^
          it is defined on line 2
          help: move the definition of 'P' above this line
        """,
    ),
    "an undeclared name": (
        "param scale: float\nO[i] = A[i] * scal",
        """
        UnknownNameError: 'scal' is no index, parameter or scalar of this program (line 2, column 15)
            O[i] = A[i] * scal
                          ^^^^
          help: did you mean 'scale'? Otherwise declare it, param scal: float, or give its indices, scal[...]
        """,
    ),
    "a tensor without brackets": (
        "O[i] = A[i] * B\nP[i] = B[i]",
        """
        UnknownNameError: 'B' is a tensor and is read without brackets (line 1, column 15)
            O[i] = A[i] * B
                          ^
          help: write B[...] with 1 subscript
        """,
    ),
    "a formal read as a tensor": (
        "def f(x) = x[0]\nO[i] = f(A[i])",
        """
        ShapeError: 'x' is an argument and has no elements to read with brackets (line 1, column 12)
            def f(x) = x[0]
                       ^
          help: write x without brackets
        """,
    ),
    "a definition that uses itself": (
        "O[i] = O[i] + 1",
        """
        RecursiveDefinitionError: definition 'O' uses itself (line 1, column 8)
            O[i] = O[i] + 1
                   ^^^^
          help: a running aggregate is a prefix, such as sum[..k](x), or a monoid of your own
        """,
    ),
    "definitions that use each other": (
        "O[i] = P[i]\nP[i] = O[i]",
        """
        RecursiveDefinitionError: definition 'O' uses itself (line 1, column 8)
            O[i] = P[i]
                   ^^^^
          by way of O -> P -> O
          help: a running aggregate is a prefix, such as sum[..k](x), or a monoid of your own
        """,
    ),
    "functions that use each other": (
        "def f(x) = g(x)\ndef g(x) = f(x)\nO[i] = f(A[i])",
        """
        RecursiveDefinitionError: function 'f' uses itself (line 1, column 12)
            def f(x) = g(x)
                       ^^^^
          by way of f -> g -> f
          help: a running aggregate is a prefix, such as sum[..k](x), or a monoid of your own
        """,
    ),
    "two numbers of dimensions": (
        "O[i] = A[i] + A[i,j]",
        """
        ShapeError: 'A' is read with 2 subscripts here and with 1 before (line 1, column 15)
            O[i] = A[i] + A[i,j]
                   ^^^^   ^^^^^^
          help: a tensor has one number of dimensions; `input` declares which
        """,
    ),
    "more dimensions than declared": (
        "input A[i,j]\nO[i] = A[i]",
        """
        ShapeError: 'A' has 2 dimensions and is read with 1 subscript (line 2, column 8)
            input A[i,j]
                  ^
            O[i] = A[i]
                   ^^^^
          help: its form is A[i,j]
        """,
    ),
    "fewer subscripts than a definition has": (
        "P[i,j] = A[i,j]\nO[i] = P[i]",
        """
        ShapeError: 'P' has 2 dimensions and is read with 1 subscript (line 2, column 8)
            P[i,j] = A[i,j]
            ^
            O[i] = P[i]
                   ^^^^
          help: its form is P[i,j]
        """,
    ),
    "a filter on another index": (
        "O[q] = sum[k if q < 3](A[q,k])",
        """
        FilterError: the filter mentions 'q' and not 'k', which 'sum' binds (line 1, column 17)
            O[q] = sum[k if q < 3](A[q,k])
                            ^^^^^
          it is the same for all elements along 'k'
          help: a condition of this kind belongs in where(c, x, 0)
        """,
    ),
    "a filter on no index": (
        "param w: int\nO[q] = sum[k if w < 3](A[q,k])",
        """
        FilterError: the filter does not mention 'k', which 'sum' binds (line 2, column 17)
            O[q] = sum[k if w < 3](A[q,k])
                            ^^^^^
          it is the same for all elements along 'k'
          help: a condition of this kind belongs in where(c, x, 0)
        """,
    ),
    "a misspelt reduction": (
        "O[q,k] = sotfmax[k](A[q,k])",
        """
        UnknownFunctionError: there is no reduction 'sotfmax' (line 1, column 10)
            O[q,k] = sotfmax[k](A[q,k])
                     ^^^^^^^
          help: did you mean 'softmax'?
        """,
    ),
    "a misspelt function": (
        "O[q] = epx(A[q])",
        """
        UnknownFunctionError: there is no function 'epx' (line 1, column 8)
            O[q] = epx(A[q])
                   ^^^
          help: did you mean exp(x)?
        """,
    ),
    "a reduction called as a function": (
        "O[i] = sum(A[i])",
        """
        UnknownFunctionError: 'sum' is a reduction and needs an index in brackets (line 1, column 8)
            O[i] = sum(A[i])
                   ^^^
          help: say which index it binds: sum[k](x)
        """,
    ),
    "a function used as a reduction": (
        "O[i] = exp[k](A[i,k])",
        """
        UnknownFunctionError: 'exp' is a function, not a reduction, and binds no index (line 1, column 8)
            O[i] = exp[k](A[i,k])
                   ^^^
          help: write exp(x)
        """,
    ),
    "too many arguments": (
        "O[q] = exp(A[q], 2)",
        """
        ArityError: 'exp' takes 1 argument, and 2 are given (line 1, column 8)
            O[q] = exp(A[q], 2)
                   ^^^^^^^^^^^^
          help: its form is exp(x)
        """,
    ),
    "too few arguments": (
        "O[q] = where(A[q] > 0, 1)",
        """
        ArityError: 'where' takes 3 arguments, and 2 are given (line 1, column 8)
            O[q] = where(A[q] > 0, 1)
                   ^^^^^^^^^^^^^^^^^^
          help: its form is where(condition, a, b)
        """,
    ),
    "too many operands": (
        "O[q] = sum[k](A[q], 2)",
        """
        ArityError: 'sum' takes 1 operand, and 2 are given (line 1, column 8)
            O[q] = sum[k](A[q], 2)
                   ^^^^^^^^^^^^^^^
          help: its form is sum[k](x)
        """,
    ),
    "a sum that could be meant two ways": (
        "O[q] = exp(A[q,k])",
        """
        AmbiguousSumError: the implied sum over 'k' could be meant two ways (line 1, column 12)
            O[q] = exp(A[q,k])
                       ^^^^^^
          'k' is not on the left and occurs only here, under a nonlinear function
          help: write sum[k](exp(A[q,k])) or exp(sum[k](A[q,k]))
        """,
    ),
    "a sum that a condition and what it guards could share": (
        "O[q] = where(A[q,d]*B[d] > 0, C[q,d]*D[d], 0)",
        """
        AmbiguousSumError: the implied sum over 'd' could be meant two ways (line 1, column 8)
            O[q] = where(A[q,d]*B[d] > 0, C[q,d]*D[d], 0)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          'd' is not on the left and stands in several arguments
          help: write sum[d](where(A[q,d] * B[d] > 0, C[q,d] * D[d], 0)) or where(sum[d](A[q,d] * B[d]) > 0, sum[d](C[q,d] * D[d]), 0)
        """,
    ),
    "a float as an index": (
        "O[i] = A[B[i] / 2]",
        """
        TypeMismatchError: a float where an index is needed (line 1, column 10)
            O[i] = A[B[i] / 2]
                     ^^^^^^^^
          help: integer division is //, and int(x) the whole part of x; an input of integers is declared: input T[i]: int
        """,
    ),
    "a float as a condition": (
        "O[i] = where(A[i] + 1, 2, 3)",
        """
        TypeMismatchError: a float where a condition is needed (line 1, column 14)
            O[i] = where(A[i] + 1, 2, 3)
                         ^^^^^^^^
          help: compare it, such as x != 0
        """,
    ),
    "an input used in two ways": (
        "O[i] = A[T[i]] * where(T[i], 1, 2)",
        """
        TypeMismatchError: 'T' is used both as an index and as a condition (line 1, column 24)
            O[i] = A[T[i]] * where(T[i], 1, 2)
                     ^^^^          ^^^^
          help: declare its type, input T[...]: int, and compare: T[...] != 0
        """,
    ),
    "a new index without extent": (
        "O[i,r] = top[k -> r](A[i,k])",
        """
        UnknownIndexError: nothing gives the extent of index 'r' (line 1, column 5)
            O[i,r] = top[k -> r](A[i,k])
                ^
          no input is read with it as a plain subscript
          help: declare it: index r < ...
        """,
    ),
    "top without a new index": (
        "O[i] = top[k](A[i,k])",
        """
        ParseError: 'top' lacks its new index (line 1, column 8)
            O[i] = top[k](A[i,k])
                   ^^^
          help: write top[k -> r](x), with index r < ...
        """,
    ),
    "a new index of another reduction": (
        "O[i] = max[k -> r](A[i,k])",
        """
        ParseError: 'max' makes no new index; only top and argtop do (line 1, column 8)
            O[i] = max[k -> r](A[i,k])
                   ^^^
          help: write max[k](x)
        """,
    ),
    "a prefix over two indices": (
        "O[i] = sum[..k, j](A[i,k,j])",
        """
        ArityError: a prefix aggregate goes along 1 index, and 2 are given (line 1, column 8)
            O[i] = sum[..k, j](A[i,k,j])
                   ^^^
          help: join them into one index first
        """,
    ),
    "a prefix of softmax": (
        "O[i] = softmax[..k](A[i,k])",
        """
        ParseError: 'softmax' has no prefix form (line 1, column 8)
            O[i] = softmax[..k](A[i,k])
                   ^^^^^^^
          help: divide by a running aggregate: exp(x - logsumexp[..k](x))
        """,
    ),
    "an index twice on the left": (
        "O[i,i] = A[i]",
        """
        DuplicateNameError: 'i' stands twice on the left side (line 1, column 5)
            O[i,i] = A[i]
              ^ ^
        """,
    ),
    "an extent that is data": (
        "index k < A[0]\nO[k] = k",
        """
        TypeMismatchError: the extent of index 'k' must be an integer known at the call (line 1, column 11)
            index k < A[0]
                      ^^^^
          accepted: integers, extents, int parameters, + - * // %, minimum, maximum
          help: a bound that differs from element to element is a filter: sum[k if k < len[b]](x)
        """,
    ),
    "extents that give each other": (
        "index k < |j|\nindex j < |k|\nO[k,j] = k + j",
        """
        RecursiveDefinitionError: the extent of index 'k' is given by itself (line 1, column 7)
            index k < |j|
                  ^^^^^^^
          help: give it a number, a parameter or the extent of another index
        """,
    ),
    "a monoid with a part missing": (
        "monoid M(a, b) = unit (0, 0), combine (a + a')",
        """
        ArityError: monoid 'M' has 2 fields, and 'combine' has 1 part (line 1, column 39)
            monoid M(a, b) = unit (0, 0), combine (a + a')
                                                  ^^^^^^^^
          help: 'combine' has one part for each field
        """,
    ),
    "a monoid of other names": (
        "monoid M(a) = unit 0, combine a + a' + c",
        """
        UnknownNameError: a monoid is made of its fields, numbers and functions of these only (line 1, column 40)
            monoid M(a) = unit 0, combine a + a' + c
                                                   ^
          names that may stand here: a, a'
        """,
    ),
    "an aggregate without a field": (
        "monoid M(a, b) = unit (0, 0), combine (a + a', b + b')\nO = M[k](A[k], B[k])",
        """
        TypeMismatchError: 'M' gives 2 values, and one is needed here (line 2, column 5)
            O = M[k](A[k], B[k])
                ^^^^^^^^^^^^^^^^
          its fields: a, b
          help: take one of them, such as M[...](...).a
        """,
    ),
    "an unknown field": (
        "monoid M(sum_, b) = unit (0, 0), combine (sum_, b)\nO = M[k](A[k], B[k]).summ",
        """
        UnknownNameError: monoid 'M' has no field 'summ' (line 2, column 22)
            O = M[k](A[k], B[k]).summ
                                 ^^^^
          its fields: sum_, b
          help: did you mean 'sum_'?
        """,
    ),
    "a field of a number": (
        "O[i] = A[i].T",
        """
        TypeMismatchError: '.T' stands after a value that has no fields (line 1, column 13)
            O[i] = A[i].T
                        ^
          help: fields belong to the aggregate of a monoid: Affine[t](a, u).u
        """,
    ),
    "a primed name outside a monoid": (
        "O[i] = a' + A[i]",
        """
        UnknownNameError: the primed name a' means something in 'combine' only (line 1, column 8)
            O[i] = a' + A[i]
                   ^^
          help: remove the prime
        """,
    ),
    "only declarations": (
        "input A[i]",
        """
        OutputError: the program has no output: it defines nothing (line 1, column 7)
            input A[i]
                  ^^^^
          help: add a definition, such as O[i] = 2 * A[i]
        """,
    ),
    "an empty program": (
        "# nothing",
        """
        EmptyProgramError: the program is empty
          help: a program defines something: O[i] = 2 * A[i]
        """,
    ),
    "an unknown output": (
        "O[i] = A[i]\nreturn P",
        """
        OutputError: 'P' is not a definition and cannot be returned (line 2, column 8)
            return P
                   ^
          definitions: O
          help: define it: P[...] = ...
        """,
    ),
    "an input as output": (
        "O[i] = A[i]\nreturn A",
        """
        OutputError: 'A' is not a definition and cannot be returned (line 2, column 8)
            return A
                   ^
          definitions: O
          help: define a result: A_out[...] = ...
        """,
    ),
    "an unknown dtype": (
        "O[i] = A[i]\nreturn O: float31",
        """
        UnsupportedDtypeError: 'float31' is no dtype (line 2, column 11)
            return O: float31
                      ^^^^^^^
          accepted: float16, bfloat16, float32, float64, accumulated, int32, int64, bool
          help: did you mean 'float32'?
        """,
    ),
    "an output twice": (
        "O[i] = A[i]\nreturn O, O",
        """
        OutputError: 'O' is returned twice (line 2, column 11)
            return O, O
                   ^  ^
        """,
    ),
    "a huge exponent": (
        "O[i] = 1e999 * A[i]",
        """
        LimitError: an exponent lies outside -400 to 400 (line 1, column 8)
            O[i] = 1e999 * A[i]
                   ^^^^^
        """,
    ),
    "an integer of more than 64 bits": (
        "O[i] = where(i < 18446744073709551616, A[i], 0)",
        """
        LimitError: 18446744073709551616 is larger than an integer of 64 bits can be, 2**63 - 1 (line 1, column 18)
            O[i] = where(i < 18446744073709551616, A[i], 0)
                             ^^^^^^^^^^^^^^^^^^^^
          help: write a float: 18446744073709551616.0
        """,
    ),
    "a default of more than 64 bits": (
        "param n: int = -9223372036854775809\nO[i] = A[i] + n",
        """
        LimitError: 9223372036854775809 is larger than an integer of 64 bits can be, 2**63 - 1 (line 1, column 17)
            param n: int = -9223372036854775809
                            ^^^^^^^^^^^^^^^^^^^
          help: write a float: 9223372036854775809.0
        """,
    ),
    "a control character": (
        "O[i] = A[i]\x07\t+ 2",
        """
        ParseError: '\\x07' has no meaning here (line 1, column 12)
            O[i] = A[i]  + 2
                       ^
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    program, message = CASES[name]
    with pytest.raises(MonocompError) as caught:
        check(program)
    assert caught.value.described() == inspect.cleandoc(message)


VALID = {
    "brackets": "O[i] = sum[k](A[i,k])\nP[i] = A[i,0]",
    "operator": "S[i,j] = sum[d](Q[i,d] * K[j,d])",
    "comma": "O[i,j] = A[i, j]",
    "continued line": "O[i] = A[i] +\n  2",
    "scalar": "O = A[i]",
    "choice": "O[i] = where(i < 3, A[i], 2)",
    "parameter": "param x: float = 3\nO[i] = A[i] * x",
    "index": "index k < 4\nO[k] = A[k]",
    "output index": "O[i,e] = sum[j](P[i,j] * V[j,e])",
    "order": "P[i] = A[i]\nO[i] = P[i]",
    "filter": "O[q] = sum[k if k < 3](A[q,k])",
    "two ways": "O[q] = exp(sum[k](A[q,k]))",
    "subscript": "O[i] = A[B[i] // 2]",
    "new index": "index r < 2\nO[i,r] = top[k -> r](A[i,k])",
    "field": "monoid M(a, b) = unit (0, 0), combine (a + a', b + b')\nO = M[k](A[k], B[k]).a",
}


@pytest.mark.parametrize("name", VALID)
def test_the_valid_neighbour(name: str) -> None:
    assert check(VALID[name]).outputs


HUGE = {
    "long": "O[i] = A[i]  # " + "x" * 70_000,
    "a long line": "O[i] = " + " " * 65_000 + "A[i] $",
    "nested": "O[i] = " + "(" * 100_000 + "A[i]" + ")" * 100_000,
    "nested, within the length": "O[i] = " + "(" * 30_000 + "A[i]" + ")" * 30_000,
    "nested reads": "O[i] = " + "A[" * 65 + "i" + "]" * 65,
    "only opened": "[(" * 30_000,
    "many words": "O[i] = " + "A[i] + " * 6_000 + "A[i]",
    "many terms": "O[i] = " + "A[i] + " * 500 + "A[i]",
    "many signs": "O[i] = " + "-" * 3_000 + "A[i]",
    "many negations": "O[i] = where(" + "not " * 3_000 + "M[i], 1, 2)",
    "a tower": "O[i] = " + "A[i] ** " * 500 + "2",
    "a long name": "O[i] = " + "a" * 65 + "[i]",
    "many dimensions": "O = A[" + ",".join(f"i{n}" for n in range(17)) + "]",
    "a long number": "O[i] = A[i] * " + "9" * 41,
    "a number above all floats": "O[i] = A[i] * 9e399",
    "a small exponent": "O[i] = A[i] * 1e-401",
    "an exponent of many digits": "O[i] = A[i] * 1e" + "9" * 5_000,
    "doubling functions": "def f0(x) = x + x\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + f{n}(x)\n" for n in range(40))
    + "O[i] = f40(A[i])",
    "a monoid of doubling functions": "def f0(x) = x + x\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + f{n}(x)\n" for n in range(40))
    + "monoid M(x) = unit 0, combine f40(x) + x'\nO = M[k](A[k])",
    "deep functions": "def f0(x) = x + 1\n"
    + "".join(f"def f{n + 1}(x) = f{n}(x) + 1\n" for n in range(200))
    + "O[i] = f200(A[i])",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_program_that_is_too_large_is_refused(name: str) -> None:
    started = time.perf_counter()
    with pytest.raises((LimitError, ParseError)) as caught:
        check(HUGE[name])
    assert time.perf_counter() - started < 20  # not after hours
    assert max(map(len, caught.value.described().split("\n"))) < 130


def test_large_programs_within_the_limits_are_fine() -> None:
    assert check("O[i] = " + "A[i] + " * 98 + "A[i]")
    assert check("O[i] = where(" + "M[i] and " * 600 + "M[i], 1, 2)")
    assert check("O[i] = " + "(" * 63 + "A[i]" + ")" * 63)
    assert check("A0 = 1\n" + "".join(f"A{n + 1} = A{n} + 1\n" for n in range(600)))
    assert check("O[i] = A[i] * 1e-400 + 1e300")


@pytest.mark.parametrize("text", [None, 3, b"O[i] = A[i]", ["O[i] = A[i]"]])
def test_a_program_is_a_text(text: object) -> None:
    with pytest.raises(UsageError):
        check(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["Ｏ[i] = A[i]", "O[i] = ℌ[i]", "O[ı] = A[ı]", "O[i] = ſum[k](A[i,k])", "O[i] = A[i]\u0301",
     "O[i] = A[i] * ١", "\u212a[i] = A[i]", "O[i] = ﬁ[i]"],
)  # fmt: skip
def test_names_are_ascii(text: str) -> None:
    with pytest.raises(ParseError, match="names are made of ASCII letters"):
        check(text)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x85", "\u2028", "\u200b", "\ud800", "\v"])
def test_invisible_characters_do_not_break_a_message(character: str) -> None:
    with pytest.raises(ParseError) as caught:
        check(f"O[i] = A[i] {character} + 2\nP[i] = O[i]")
    message = caught.value.described()
    assert (caught.value.line, caught.value.column) == (1, 13)
    assert all(part.isprintable() for part in message.split("\n"))
    assert len(message.split("\n")) == 3


@pytest.mark.parametrize("name", ["tl", "__class__", "exec", "lambda", "None", "float", "self"])
def test_words_of_python_have_no_power(name: str) -> None:
    assert list(check(f"O[i] = {name}[i]").inputs) == [name]
    assert list(check(f"{name} = A[i]\nO[j] = {name} * B[j]").definitions) == [name, "O"]
    assert check(f"O[{name}] = A[{name}]").extent_of == {name: name}
    with pytest.raises(MonocompError):
        check(f"O[i] = {name}(A[i])")


MARKS = "+ - * / // % ** < <= == != = ( ) [ ] | , : ; . .. -> ' $ α 0 1 2 0.5 1e3"
NAMES = "sum max softmax top argtop mean any exp where uniform maximum stop inf int float bool"
LOCAL = "A B O P i j k q f M a a' u u' x float32"
KEYS = "input param index def monoid unit combine return if and or not"
WORDS = [word for words in (MARKS, NAMES, LOCAL, KEYS) for word in words.split()]

SEEDS = [program for program, _ in CASES.values()] + list(VALID.values())
SEEDS += [
    "input Q[b,h,q,d], M[q,k]: bool\nparam w: int = 4, c: float\nindex r < |k| // 2\n"
    "def cap(x, c) = c * tanh(x / c)\nG[h] = h // 2\n"
    "S[b,h,q,k] = cap(Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|), c)\n"
    "O[b,h,q,e] = softmax[k if k <= q and M[q,k]](S[b,h,q,k]) * V[b,G[h],k,e]\n"
    "T[b,h,q,r] = argtop[k -> r](S[b,h,q,k])\nreturn O, T: int32",
    "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    "H[t,i] = Affine[..t](g[t], x[t,i]).u",
]


def only_our_errors(text: str) -> None:
    try:
        check(text)
    except MonocompError as error:
        assert error.described() == f"{type(error).__name__}: {error}"
        tokens = ("__ANON", "RSQB", "LPAR", "_END", "$END")
        assert not any(name in str(error) and name not in text for name in tokens)


SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.lists(st.sampled_from([*WORDS, "\n"]), max_size=40), st.sampled_from(["", " "]))
def test_random_words(words: list[str], between: str) -> None:
    only_our_errors(between.join(words))


@SETTINGS
@given(st.text(max_size=60))
def test_random_text(text: str) -> None:
    only_our_errors(text)


@SETTINGS
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.lists(st.sampled_from(WORDS), max_size=4))
def test_random_right_sides(words: list[str], indices: list[str]) -> None:
    only_our_errors(f"O[{','.join(indices)}] = {' '.join(words)}")


@SETTINGS
@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 3)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS, "\n"])) + text[stop:]
    only_our_errors(text)


@SETTINGS
@given(st.data())
def test_programs_with_names_exchanged(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS))
    words = data.draw(st.lists(st.sampled_from("ABOPikqfMax"), min_size=2, max_size=6))
    for old, new in pairwise(words):
        text = text.replace(old, new)
    only_our_errors(text)
