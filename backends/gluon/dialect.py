"""The Gluon dialect: for kernels on Hopper with products whose operands descriptors can load, or
that are computed; all else in them is element-wise, a reduction, a load or a store by pointers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from monocomp import blocks as B
from monocomp.backends.gluon import legal
from monocomp.backends.gluon.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.gluon.passes import UNPRINTED
from monocomp.backends.gluon.printer import ITEM_NAMES, GluonPrinter, layout_name
from monocomp.backends.triton.host_functions import HOST_FUNCTIONS
from monocomp.tile import TileProgram

_HOPPER = "triton.experimental.gluon.language.nvidia.hopper"
_SHARED_DESCRIPTOR = '''def shared_descriptor(tensor, block):
    """Describe blocks as products of 16 bits take them, or vectors; None for others."""
    is_vector = sum(length > 1 for length in block) == 1
    dtypes = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
    dtypes |= {torch.float32: gl.float32} if is_vector else {}
    described = descriptor(tensor, block)
    if tensor.dtype not in dtypes or described is None:
        return None
    layout = gl.NVMMASharedLayout.get_default_for(block, dtypes[tensor.dtype])
    return hopper.TensorDescriptor(tensor, described.shape, described.strides, block, layout)'''
_ADDING = '''def adding_descriptor(tensor, part):
    """Describe parts of the result of a product, which are added to a tensor as threads hold them:
    of 64 rows and columns, 8 columns after the others. A line has 32 elements."""
    *grid, rows, columns = tensor.shape
    shape = [*grid, rows // 64, columns * 2, 32]
    if len(shape) > 5:
        return None
    strides = [torch.Size(shape[n + 1 :]).numel() for n in range(len(shape))]
    block = [*[1] * len(grid), part[0] // 64, part[1] * 2, 32]
    layout = gl.NVMMASharedLayout(0, 32, len(block))
    return hopper.TensorDescriptor(tensor, shape, strides, block, layout)'''
_LAUNCH = '''def launch(kernel, programs, *args, **options):
    """Run a kernel in so many programs; if they work through items, in one a multiprocessor."""
    if "ITEMS" in options:
        properties = torch.cuda.get_device_properties(args[0].device)
        programs = min(programs, properties.multi_processor_count)
    if programs > 0:
        kernel[(programs,)](*args, **options)'''
_DEVICES = """
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("the self-check needs a Hopper GPU", file=sys.stderr)
        return 2
    device, dtypes = "cuda", (torch.bfloat16,)
"""


def _taken(program: TileProgram, kernel: str) -> set[str]:
    """Return the names taken by a kernel's functions, and by layouts and variables in them."""
    pairs = product(program.axes, program.axes, (False, True))
    layouts = {layout_name(B.Registers((a, b), in_rows=rows)) for a, b, rows in pairs}
    rows = {f"{kind}_{a.upper()}" for a in program.axes for kind in ("ROWS", "LAYOUT")}
    parts = {f"{kernel}_{role}" for role in ("consumer", "producer", "finder")}
    own = {"STAGES", "GROUPS", "GROUP", "TURNS", "WIDTH", "ITEMS", "n", "rings"}
    return {*layouts, *rows, *parts, *own, *ITEM_NAMES}


GLUON = replace(
    UNPRINTED,
    printer=GluonPrinter,
    schedules=legal.LegalOfWarpgroups,
    table=legal,
    reasons=legal.reasons,
    reserved={
        *("gl", "gluon", "hopper", "fence_async_shared", "mbarrier", "tma"),
        *("warpgroup_mma", "warpgroup_mma_wait"),
    },
    taken=_taken,
    imports=(
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        f"from {_HOPPER} import (",
        "    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait)",
        "from triton.experimental.gluon.nvidia import hopper",
    ),
    device_functions=DEVICE_FUNCTIONS,
    host_functions={
        **HOST_FUNCTIONS,
        "shared_descriptor": _SHARED_DESCRIPTOR,
        "adding_descriptor": _ADDING,
        "launch": _LAUNCH,
    },
    devices=_DEVICES,
)
