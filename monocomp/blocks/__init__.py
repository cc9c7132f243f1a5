"""Block programs: one kernel for one way of running it, as data.

    tile program
      | choices     order of dimensions, loads by descriptors, phases of loops, alignment, dtypes:
      |             each decides one thing and records it (`Choices`); without any of them a
      |             program means the same, and tests interpret it after each
      | building    one statement after the other; what has been chosen is written out
    block program
      | passes      constants for what is known; for dialects that can say so, blocks in rings of
      |             stages (`pipeline`), a warp of its own that asks for blocks (`specialise`),
      |             and where tiles lie in registers (`position`)
    a printer of a dialect

Three things go with the data: `text` shows a program, `verifier` checks one, and the block
interpreter of the backends says what it means.
"""
