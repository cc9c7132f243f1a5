"""Block programs: one kernel for one way of running it, as data.

    tile program
      | choices     order of dimensions, loads by descriptors, phases of loops, alignment, dtypes:
      |             each decides one thing and records it (`Choices`); without any of them a
      |             program means the same, and tests interpret it after each
      | building    one statement after the other; what has been chosen is written out, and what is
      |             known of arguments is folded by the constructors of `operations`
    block program
      | passes      for dialects that can say so, blocks in rings of stages (`pipeline`), a warp of
      |             its own that asks for blocks (`specialise`), and where tiles lie in registers
      |             (`place`)
    a printer of a dialect

`masking` has the phases, bounds and masks of loops, chosen and written out, in one room.

Three things go with the data: `text` shows a program, `verifier` checks one, and the block
interpreter of the backends says what it means.
"""
