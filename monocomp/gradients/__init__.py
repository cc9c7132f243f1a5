"""Gradients: programs differentiated, as programs.

`gradient` differentiates the equations of a program in normal form (`reverse`), chooses the values
that the forward saves (`choosing`), reads these for the terms that they tell (`reading`), and names
what several gradients share (`definitions`).
"""
