"""Loops over a part of an axis: where they begin and end, in which phases they run, and what masks
the blocks.

The filter `k <= q` of a causal sum comes to this (`monocomp explain causal --stage blocks`):

    the text        sum[k if k <= q](...)
    extents.domain  `split` makes the domain of k the interval 0 .. q + 1, without a mask
    the tile loop   for k in 0 .. min(|k|, q + 1):
                        s_in[k,q] = inside[k, -inf](s)

    `phases`        `peel` chooses the form "split": the interval begins at the same k for all rows.
    `bounds`        Of a block of rows start_q .. last_q the bound q + 1 is at least start_q + 1 and
                    at most last_q + 1 (`range_of`), and each row has its own (`name_row_bounds`):
                        high_k = minimum(size_k, last_q + 1)
                        full_high_k = minimum(size_k, start_q + 1)
                        to_k[q] = minimum(high_k, offs_q + 1)
    `loops`         Blocks up to the last that ends before full_high_k need no mask (`_split`):
                        full_end_k = maximum(0, full_high_k // BLOCK_K * BLOCK_K)
                        for masked in 0 .. 2, unrolled:
                            begin, end = (0, full_end_k) or (full_end_k, high_k)
                            for first_k in begin .. end, a block of k at a time:
    `masks`         `inside` is a test of each element (`domain`); unless masked it is known:
                        keep[q,k] = offs_k < to_k | (masked == 0)
                        s_in[q,k] = where(keep, s, -inf)

A condition that bounds no interval, such as `doc[k] == doc[q]`, stays as a mask in the tile loop
(`Mask`). Where it pays a kernel of its own lists the blocks in which it admits anything (`filters`,
`building.maps`), and the loop runs over these lists (`lists`). Elsewhere each block computes it
(`masks.admit`); one in which it admits nothing does nothing else.
"""
