"""Tapes: what a call comes to where each kernel is one block, as a flat list of torch operations.

A tape is made by interpreting the kernels of a plan with tiles that hold no elements: each notes
what is done with it. What depends on neither inputs nor parameters is computed then, once. What two
kernels have in common is done once, and what no result needs not at all; an operation writes into
the memory of an operand that nothing else reads. Small values that the tape of a backward pass has
in common with that of its call are kept between them (`sharing`), exponentials among them
(`weights`). Exponentials that only their sum divides are computed as softmax (`softmax`).

A tile knows how it is computed (`tile.Source`), so laws apply as it is recorded: sums of elements
that a condition selects (`selections`), sums of products (`products`), and guards that a later
choice implies (`guards`). What they replace no result needs.
"""
