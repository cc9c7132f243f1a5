"""Host programs: what happens around kernels, described once.

    arguments   values that kernels are given: numbers, tensors, and what is made of them
    sizes       statements about sizes, each with its text, its evaluation, and its lines in Python
    tensors     the same about tensors
    launches    the same about kernels, slices and results
    program     a program of them
    building    equations in kernels -> host program
    verifier    what must hold of one
    evaluation  the state of a call while its program is evaluated, which ends in its plan
    writer      the interface of those who write a program as a function
    plan        allocations and launches, which a call repeats

The backends numpy and torch run plans whose kernels are tile programs that they interpret; the
backend triton those of compiled kernels, and prints host programs as functions of emitted files.
"""
