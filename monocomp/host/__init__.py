"""Host programs: what happens around kernels, described once.

    program     the statements, as data that print
    building    equations in kernels -> host program
    verifier    what must hold of one
    evaluation  host program, sizes and schedules of a call -> its plan
    plan        allocations and launches, which a call repeats

The backends numpy and torch run plans whose kernels are tile programs that they interpret; the
backend triton those of compiled kernels, and prints host programs as functions of emitted files.
"""
