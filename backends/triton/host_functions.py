"""Functions of the host that emitted files hold, and a kernel that one of them runs, as text: files
hold those that they use."""

from __future__ import annotations

from importlib.resources import files

from monocomp.backends.schedules.schedule import MIN_DOT

_SORTING = files("monocomp.backends").joinpath("sorting.py").read_text("utf-8")

HOST_FUNCTIONS = {
    "split_lengths": f'''def split_lengths(size):
    """The lengths of the two tiles of an axis, such as 64 and 32 for 96."""
    first = max({MIN_DOT}, triton.next_power_of_2((size + 1) // 2))
    return first, max({MIN_DOT}, triton.next_power_of_2(size - first))''',
    "step": '''def step(*tensors):
    """What divides the strides of tensors but along one dimension each: 2, 4 or 8; or 1,
    if 16 does: that is known of itself."""
    common = 16
    for tensor, held in tensors:
        for dim, stride in enumerate(tensor.stride()):
            while dim != held and tensor.shape[dim] > 1 and stride % common:
                common //= 2
    return 1 if common == 16 else common''',
    "descriptor": '''def descriptor(tensor, block):
    """What loads blocks of a tensor by the GPU's copy engine, or None: it takes a last
    dimension without gaps, and 16 bytes must divide the address and the other strides;
    and 128 bytes a block, as those of several stages lie side by side.
    """
    shape, strides = list(tensor.shape), list(tensor.stride())
    if tensor.data_ptr() % 16 != 0 or strides[-1] != 1 or min(shape) < 1:
        return None
    if torch.Size(block).numel() * tensor.element_size() % 128 != 0:
        return None
    for dim, stride in enumerate(strides[:-1]):
        if shape[dim] == 1:
            strides[dim] = 16
        elif stride < 1 or stride * tensor.element_size() % 16 != 0:
            return None
    return TensorDescriptor(tensor, shape, strides, block)''',
    "copy_rows": '''@triton.jit
def copy_rows(x_ptr, y_ptr, size_1, size_2, size_3, stride_0, stride_1, stride_2, stride_3, count,
              length, filled, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Copies rows to memory without gaps between them, and fills them with 0 to their end."""
    blocks = tl.cdiv(filled, BLOCK)
    row = tl.program_id(0).to(tl.int64) // blocks * ROWS + tl.arange(0, ROWS)
    column = (tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
    is_row = (row < count)[:, None]
    positions = row % size_3 * stride_3
    rest = row // size_3
    positions += rest % size_2 * stride_2
    rest = rest // size_2
    positions += rest % size_1 * stride_1 + rest // size_1 * stride_0
    x = tl.load(x_ptr + positions[:, None] + column, mask=is_row & (column < length),
                other=tl.zeros([ROWS, BLOCK], x_ptr.dtype.element_ty))
    y_ptr += row[:, None] * filled + column
    tl.store(y_ptr, x, mask=is_row & (column < filled))''',
    "aligned": '''def aligned(tensor, empty, launch, widest):
    """The tensor, or a copy if 16 bytes do not divide the positions of its rows: only element by
    element could these be loaded. The copy's fill sectors of the cache, with 0 at their end.
    Elements of more than `widest` bytes, and tensors of more than five dimensions, are left where
    they are.
    """
    size, length, strides = tensor.element_size(), tensor.shape[-1], tensor.stride()
    if size > widest or tensor.numel() == 0 or strides[-1] != 1 or tensor.dim() > 5:
        return tensor
    steps = [s for n, s in zip(tensor.shape[:-1], strides) if n > 1]
    if tensor.data_ptr() % 16 == 0 and not any(s * size % 16 for s in steps):
        return tensor
    if min(steps, default=1) < 1:  # a copy of what is repeated would be larger
        return tensor
    filled = triton.cdiv(length * size, 32) * 32 // size
    rows = empty((*tensor.shape[:-1], filled), dtype=tensor.dtype, device=tensor.device)
    count, missing = tensor.numel() // length, [1] * (5 - tensor.dim())
    block = min(triton.next_power_of_2(filled), 512)
    programs = triton.cdiv(count, 8) * triton.cdiv(filled, block)
    launch(copy_rows, programs, tensor, rows, *[*missing, *tensor.shape[:-1]][1:], *missing,
           *strides[:-1], count, length, filled, ROWS=8, BLOCK=block, num_warps=4, num_stages=1)
    return rows''',
    "clear_elements": '''@triton.jit
def clear_elements(x_ptr, count, BLOCK: tl.constexpr):
    """Write 0 to every element of a new tensor."""
    position = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + position, 0, mask=position < count)''',
    "clear": '''def clear(tensor, launch):
    """Let a new tensor start as 0."""
    count = tensor.numel()
    programs = triton.cdiv(count, 1024)
    launch(clear_elements, programs, tensor, count, BLOCK=1024, num_warps=4, num_stages=1)''',
    "sort_positions": _SORTING.partition("\n\n\n")[2].rstrip(),
    "span": '''def span(tensor):
    """The largest offset in a tensor; past 2**31 offsets need 64 bits."""
    return sum((n - 1) * abs(s) for n, s in zip(tensor.shape, tensor.stride()))''',
    "launch": '''def launch(kernel, programs, *args, **options):
    """Run a kernel in so many programs."""
    if programs > 0:
        kernel[(programs,)](*args, **options)''',
}
