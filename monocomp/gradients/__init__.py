"""Gradients: programs differentiated, as programs.

`grad` differentiates the equations of a program in normal form (`reverse`), reads of the forward
what it saves (`saving`), and names what several gradients share (`definitions`).
"""
