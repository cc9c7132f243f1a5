"""Functions that an emitted reference may need, as source lines.

Torch leaves some of the language's rules open: what 0 / 0 is where both come from an empty
set, a sum of opposite infinities, a division by the integer 0, random numbers without a
state. Each is pinned by one small function, which is printed only where it is used.
"""

from __future__ import annotations

from monocomp.declarations import counter_rng

_UNIFORM = f'''
def uniform(*counters):
    """A random number in [0, 1) that depends on the counters only."""
    h = 0x{counter_rng.START:X}
    for x in counters:
        h = h ^ (x * 0x{counter_rng.STEP:X} & 0xFFFFFFFF)
        h = (h ^ (h >> {counter_rng.SHIFTS[0]})) * 0x{counter_rng.FACTOR_1:X} & 0xFFFFFFFF
        h = (h ^ (h >> {counter_rng.SHIFTS[1]})) * 0x{counter_rng.FACTOR_2:X} & 0xFFFFFFFF
        h = h ^ (h >> {counter_rng.SHIFTS[2]})
    return (h >> {32 - counter_rng.MANTISSA_BITS}).double() * 2.0**-{counter_rng.MANTISSA_BITS}
'''

_SOURCES = {
    "open_indices": '''
def open_indices(*sizes, device):
    """The values of indices of these sizes, each along an axis of its own."""
    rank = len(sizes)
    shapes = [[-1 if axis == n else 1 for axis in range(rank)] for n in range(rank)]
    values = [torch.arange(size, device=device) for size in sizes]
    return [x.view(shape) for x, shape in zip(values, shapes)]
''',
    "tabulate": '''
def tabulate(value, *sizes):
    """The value as a tensor over the leading axes; the others have been reduced."""
    reduced = value.shape[len(sizes) :]
    return torch.broadcast_to(value, (*sizes, *reduced)).reshape(sizes)
''',
    "contract": '''
def contract(axes, *factors):
    """The sum of a product over axes, each of which stays with a size of 1."""
    shape = torch.broadcast_shapes(*(x.shape for x in factors))
    if 0 in shape:
        return torch.broadcast_to(factors[0], shape).sum(axes, keepdim=True)
    operands = []
    for x in factors:
        held = [n for n, size in enumerate(x.shape, len(shape) - x.ndim) if size > 1]
        operands += [x.reshape([shape[n] for n in held]), held]
    rest = [n for n, size in enumerate(shape) if size > 1 and n not in axes]
    sizes = [1 if n in axes else size for n, size in enumerate(shape)]
    return torch.einsum(*operands, rest).reshape(sizes)
''',
    "ratio": '''
def ratio(a, b):
    """a / b, where 0 / 0 = 0: a quotient of aggregates over nothing."""
    return torch.where(a == 0, 0.0, a / b)
''',
    "product": '''
def product(a, b):
    """a * b, where 0 * inf = 0: what is left out weighs nothing."""
    return torch.where((a == 0) | (b == 0), 0.0, a * b)
''',
    "total": '''
def total(a, b):
    """a + b, where -inf + inf = -inf: what is left out stays left out."""
    return torch.where((a == -torch.inf) | (b == -torch.inf), -torch.inf, a + b)
''',
    "floor_divide": '''
def floor_divide(a, b):
    """a // b for integers, where a // 0 = 0."""
    return torch.where(b == 0, 0, a // torch.where(b == 0, 1, b))
''',
    "modulo": '''
def modulo(a, b):
    """a % b for integers, where a % 0 = 0."""
    return torch.where(b == 0, 0, a % torch.where(b == 0, 1, b))
''',
    "whole": '''
def whole(x):
    """x as an integer, rounded towards 0; the least one where x is none."""
    return torch.where(x.abs() < 2.0**63, x, -(2.0**63)).long()
''',
    "uniform": _UNIFORM,
    "top": '''
def top(x, axis, rank, count):
    """The largest elements along an axis, in order along `rank`, and where they are."""
    shape = [*x.shape]
    shape[axis] = count
    x = torch.cat((x, x.new_full(shape, -torch.inf)), axis)
    values, positions = x.sort(dim=axis, descending=True, stable=True)
    positions = torch.where(values == -torch.inf, -1, positions)
    return [y.narrow(axis, 0, count).transpose(axis, rank) for y in (values, positions)]
''',
    "fold_left": '''
def fold_left(combine, unit, axis, admitted, *elements, prefix=False):
    """Combine the admitted elements along an axis, one by one from the unit."""
    columns = torch.broadcast_tensors(admitted, *elements)
    state, prefixes = list(unit), []
    for present, *element in zip(*(x.split(1, axis) for x in columns)):
        after = combine(*state, *element)
        state = [torch.where(present, x, y) for x, y in zip(after, state)]
        prefixes.append(state)
    return [torch.cat(field, axis) for field in zip(*prefixes)] if prefix else state
''',
}

NAMES = frozenset(_SOURCES)


def source(name: str, called: str) -> list[str]:
    """Return the lines of one function, under the name that it is called by."""
    return _SOURCES[name].strip().replace(f"def {name}(", f"def {called}(").splitlines()
