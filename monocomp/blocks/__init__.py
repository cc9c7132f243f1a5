"""Block programs: one kernel for one way of running it, as data.

    tile program
      | passes      order of dimensions, loads by descriptors, phases of loops, alignment, dtypes:
      |             each decides one thing and records it (`Choices`); without any of them a
      |             program means the same, and tests interpret it after each
      | build       one statement after the other; what has been chosen is written out
    block program
      | pipeline    blocks in rings of stages, products issued and waited for,
      | specialise  a warp of its own that asks for blocks,
      | place       where tiles lie in registers: for dialects that can say so
    a printer of a dialect

Three things go with the data: `text` shows a program, `verifier` checks one, and the block
interpreter of the backends says what it means.
"""
